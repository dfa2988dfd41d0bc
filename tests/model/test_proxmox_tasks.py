"""Tasks, downloads, latencies, faults, and that the world survives being written down."""

from __future__ import annotations

import pytest

from rack.world.datacenter import Datacenter
from rack.world.errors import Refused
from rack.world.faults import Fault
from rack.world.tasks import check_upid
from tests.model.proxmoxworld import IMAGE, NOW, Site

SUM = "a" * 64


@pytest.fixture
def site() -> Site:
    return Site()


def test_with_latency_a_task_runs_until_its_time(site: Site) -> None:
    site.world.latency = "realistic"
    upid = site.create(100)
    task = site.task(upid)
    assert task.status()["status"] == "running"
    assert "exitstatus" not in task.status()
    assert site.world.next_event == task.finish
    assert not site.world.advance(task.finish - 0.1)
    assert site.world.advance(task.finish)
    assert task.status()["exitstatus"] == "OK"
    assert site.world.next_event is None


def test_a_vm_that_is_being_made_is_locked(site: Site) -> None:
    site.world.latency = "realistic"
    upid = site.create(100)
    assert site.world.vms[100].lock == "create"
    with pytest.raises(Refused, match=r"VM is locked \(create\)"):
        site.vms.configure(100, {"cores": "2"}, "", "")
    start = site.start(100)
    site.world.advance(NOW + 4)
    assert site.failure(start) == "VM is locked (create)"
    site.world.advance(NOW + 60)
    site.ok(upid)


def test_a_upid_has_pves_form_and_says_who(site: Site) -> None:
    upid = site.create(100)
    check_upid(upid)
    assert upid.endswith(":qmcreate:100:builder@pve!ci:")
    status = site.task(upid).status()
    assert (status["user"], status["tokenid"]) == ("builder@pve", "ci")
    for garbled in ("", "UPID:", upid[:-1], upid.replace("UPID", "upid")):
        with pytest.raises(Refused) as refused:
            check_upid(garbled)
        assert refused.value.errors == {"upid": "unable to parse worker upid"}


def test_a_download_is_there_once(site: Site) -> None:
    site.ok(site.download())
    volume = site.world.hosts["pve"].volume(IMAGE)
    assert volume is not None
    assert (volume.format, volume.size) == ("qcow2", 90 << 20)
    assert site.failure(site.download()) == (
        "refusing to override existing file '/var/lib/vz/import/talos.qcow2'"
    )


def test_a_checksum_is_compared(site: Site) -> None:
    assert site.failure(site.download(algorithm="sha256", checksum="b" * 64)) == (
        f"checksum mismatch: got '{SUM}' != expect '{'b' * 64}'"
    )
    assert site.world.hosts["pve"].volume(IMAGE) is None
    site.ok(site.download(algorithm="sha256", checksum=SUM.upper()))
    site.ok(site.download(algorithm="sha256", checksum=SUM))


def test_an_unknown_host_fails_the_download(site: Site) -> None:
    assert "no such host" in site.failure(site.download(url="https://elsewhere/x.qcow2"))


@pytest.mark.parametrize(
    ("content", "filename", "text"),
    [
        ("import", "talos.raw.xz", "invalid filename or wrong extension"),
        ("import", "talos.img", "invalid filename or wrong extension"),
        ("iso", "talos.qcow2", "wrong file extension"),
        ("vztmpl", "talos.tar.gz", "not configured for content-type 'vztmpl'"),
    ],
)
def test_names_and_contents_have_to_fit(site: Site, content: str, filename: str, text: str) -> None:
    storage = site.world.hosts["pve"].storages["local"]
    with pytest.raises(Refused) as refused:
        storage.check_download(content, filename)
    assert text in f"{refused.value.message}{refused.value.errors}"


def test_a_name_is_made_plain(site: Site) -> None:
    storage = site.world.hosts["pve"].storages["local"]
    assert storage.check_download("import", "a b/c d.qcow2") == "c_d.qcow2"


def test_a_file_that_is_not_what_its_name_says(site: Site) -> None:
    assert site.failure(site.download(filename="talos.vmdk")) == (
        "failed to verify file: Image is not in vmdk format"
    )
    # For raw, PVE takes anything: the machine then finds nothing to boot.
    site.ok(site.download(filename="talos.raw"))
    site.ok(site.create(scsi0="fast:0,import-from=local:import/talos.raw"))
    site.ok(site.start())
    assert site.world.vms[100].machine is None


def test_a_storage_without_files_takes_no_downloads(site: Site) -> None:
    with pytest.raises(Refused, match="not a file based storage"):
        site.world.hosts["pve"].storages["fast"].check_download("import", "x.qcow2")


def test_a_fault_fails_one_step_as_often_as_it_says(site: Site) -> None:
    site.ok(site.create(100))
    site.ok(site.create(101))
    site.world.faults.faults.append(
        Fault(step="qmstart", target="100", message="got timeout", times=1)
    )
    site.ok(site.start(101))
    assert site.failure(site.start(100)) == "got timeout"
    site.ok(site.start(100))
    assert site.world.faults.faults == []


def test_a_fault_slows_a_step_down(site: Site) -> None:
    site.world.faults.faults.append(Fault(step="qm*", seconds=5))
    task = site.task(site.create(100))
    site.world.advance(NOW + 4.9)
    assert task.exit_status == ""
    site.world.advance(NOW + 5)
    assert task.exit_status == "OK"


def test_the_world_survives_being_written_down(site: Site) -> None:
    site.ok(site.download())
    site.ok(site.create(100, scsi0=f"fast:0,import-from={IMAGE}", ide2="fast:cloudinit"))
    site.ok(site.start())
    site.world.latency = "realistic"
    pending = site.create(101)
    text = site.world.model_dump_json()
    again = Datacenter.model_validate_json(text)
    assert again.model_dump_json() == text
    assert again.vms[100].is_running
    again.advance(NOW + 60)
    task = again.task(pending)
    assert task is not None
    assert task.exit_status == "OK"


def test_removing_a_volume(site: Site) -> None:
    site.ok(site.download())
    work = {"volume": IMAGE}
    site.ok(site.world.submit("imgdel", "pve", "local", site.who, NOW, **work))
    again = site.world.submit("imgdel", "pve", "local", site.who, NOW, **work)
    assert "No such file or directory" in site.failure(again)

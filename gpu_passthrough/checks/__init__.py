"""What preflight and verify share: a finding, a report of findings, and the ways to print one."""

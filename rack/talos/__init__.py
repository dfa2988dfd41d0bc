"""What Talos offers over HTTP: the image factory, and the API of the machines."""

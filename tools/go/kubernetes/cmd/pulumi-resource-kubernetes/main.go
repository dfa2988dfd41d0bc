// Command pulumi-resource-kubernetes is Pulumi's Kubernetes provider, with a
// schema that only names the package: the engine reads schemas for code
// generation, never for create, update, preview or delete.
package main

import (
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
)

// version is set by the linker.
var version string

func main() {
	provider.Serve("kubernetes", version, []byte(`{"name":"kubernetes"}`), nil)
}

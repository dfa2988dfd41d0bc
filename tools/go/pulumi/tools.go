//go:build tools

// Package tools names the programs that this module builds, so that
// `go mod tidy` keeps what they need and nothing else.
package tools

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"

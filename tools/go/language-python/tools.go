//go:build tools

// Package tools names the program that this module builds, so that
// `go mod tidy` keeps what it needs and nothing else.
package tools

import _ "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python"

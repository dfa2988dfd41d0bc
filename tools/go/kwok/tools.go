//go:build tools

// Package tools names the program that this module builds, so that
// `go mod tidy` keeps what it needs and nothing else.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"

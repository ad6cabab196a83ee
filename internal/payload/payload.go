// Package payload says what a Holdfast release is made of: versions, image
// names and the packages that a host needs from its distribution. It is data;
// package release builds and serves it.
package payload

// Version is the version of Holdfast itself.
const Version = "v0.1.0"

// Versions of the third parties. They are the same as in payload/*/go.mod;
// a test compares them.
const (
	KubernetesVersion = "v1.36.3"
)

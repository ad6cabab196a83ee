// Package release builds, opens and distributes a Holdfast release: a directory
// in the OCI image layout with release.json beside it.
//
// A build consists of steps. A cache outside the repository keeps the result of
// each step under a hash of all its inputs. A step with unchanged inputs does
// not run again. A result appears in the cache whole or not at all, whenever
// the machine dies. Two builds at the same time share steps instead of running
// them twice. The same inputs give the same digests: nothing of the time, the
// machine or the folder gets into a layer.
//
// Package payload defines the contents of a release.
package release

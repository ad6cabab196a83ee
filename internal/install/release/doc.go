// Package release makes, opens and hands out a Holdfast release: a directory
// in the OCI image layout with release.json beside it.
//
// Building is a set of steps whose results are kept in a cache outside the
// repository, each under a hash of everything that went into it. A step whose
// inputs did not change is not run again; a result appears in the cache whole
// or not at all, whatever moment the machine dies at; two builds at once
// share steps instead of doing them twice. Same inputs give the same digests:
// nothing of the time, the machine or the folder goes into a layer.
//
// What a release consists of is said by package payload.
package release

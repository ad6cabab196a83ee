// Package gate decides whether an upgrade may begin, go on and be committed: each
// thing that must hold is one gate, with its reason and the way out.
//
// A fact that nobody could find out keeps an upgrade from beginning and holds one
// that is under way. It never makes a host return to its old release.
package gate

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version is a version of a program, such as 1.36.3. The zero value stands for
// none.
type Version struct{ Major, Minor, Patch int }

// ParseVersion reads a version, with or without a "v" before it. What follows the
// three numbers after a "-" or a "+" is left out.
func ParseVersion(text string) (Version, error) {
	numbers, _, _ := strings.Cut(strings.TrimPrefix(text, "v"), "+")
	numbers, _, _ = strings.Cut(numbers, "-")
	parts := strings.Split(numbers, ".")
	var out [3]int
	for i := range out {
		if len(parts) != len(out) {
			return Version{}, fmt.Errorf("version %q: want three numbers such as 1.36.3", text)
		}
		n, err := strconv.ParseUint(parts[i], 10, 31)
		if err != nil {
			return Version{}, fmt.Errorf("version %q: %q is no number", text, parts[i])
		}
		out[i] = int(n)
	}
	return Version{out[0], out[1], out[2]}, nil
}

// MarshalText writes the version as people do.
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads a version.
func (v *Version) UnmarshalText(text []byte) error {
	read, err := ParseVersion(string(text))
	if err == nil {
		*v = read
	}
	return err
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Series returns the version without its patch, as people name a minor release.
func (v Version) Series() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// series is the version with patch 0, with which minor releases are compared.
func (v Version) series() Version { return Version{v.Major, v.Minor, 0} }

// Compare orders versions.
func (v Version) Compare(other Version) int {
	return cmp.Or(cmp.Compare(v.Major, other.Major), cmp.Compare(v.Minor, other.Minor), cmp.Compare(v.Patch, other.Patch))
}

// minorsAbove returns by how many minor releases v is newer; ok is false if the
// major versions differ.
func (v Version) minorsAbove(other Version) (n int, ok bool) {
	return v.Minor - other.Minor, v.Major == other.Major
}

// Range is a range of format numbers, both ends included.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

func (r Range) holds(n int) bool { return r.Min <= n && n <= r.Max }

func (r Range) String() string {
	if r.Min == r.Max {
		return strconv.Itoa(r.Min)
	}
	return fmt.Sprintf("%d to %d", r.Min, r.Max)
}

// Format is what a release does with one of our own formats.
type Format struct {
	// Reads is the range of format numbers that the release can read.
	Reads Range `json:"reads"`
	// Writes is the number that it writes until its own upgrade is committed.
	Writes int `json:"writes"`
}

// Release is what a release says about itself.
type Release struct {
	// Name is for people, Digest identifies the release.
	Name   string `json:"name"`
	Digest string `json:"digest"`
	// Version is that of Holdfast.
	Version Version `json:"version"`
	// Least is the oldest version of Holdfast from which an upgrade to this release
	// may begin.
	Least Version `json:"least"`
	// Verified is true once each blob was compared with the digest.
	Verified bool `json:"verified"`
	// Kubernetes and Etcd are the versions of the programs.
	Kubernetes Version `json:"kubernetes"`
	Etcd       Version `json:"etcd"`
	// LeastEtcd is the oldest etcd that is safe beside this release, and to return
	// to.
	LeastEtcd Version `json:"leastEtcd"`
	// Formats has an entry for each format of ours, by its name.
	Formats map[string]Format `json:"formats"`
	// Steps is the range of step versions that the release's agent and operator
	// speak.
	Steps Range `json:"steps"`
	// Network names what hosts of two releases must have in common on the wire: VIPs,
	// VRIDs, priorities, MTU. Releases that can be mixed have the same.
	Network string `json:"network"`
	// StoredVersions lists, for each CRD of ours, the versions that the release
	// reads, as NAME/VERSION.
	StoredVersions []string `json:"storedVersions"`
	// Stack lists the packages below etcd, as NAME=VERSION, sorted. It is empty where
	// the distribution brings them.
	Stack []string `json:"stack"`
	// Images has the full names of payload.ClusterImages, by their names. It is empty
	// where an agent of before them tells of the release.
	Images map[string]string `json:"images,omitempty"`
}

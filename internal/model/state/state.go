// Package state holds the values that the other packages exchange. They have no
// behaviour that reaches outside. The package imports nothing of this module and
// must stay so, since everything else imports it.
package state

import (
	"io/fs"
	"slices"
	"strings"
)

// Role is the part of a host in a cluster. The names are those of the
// install-config and of the Ignition files.
type Role string

// The roles. A rendezvous host is a control plane that also starts the
// cluster; its role is RoleBootstrap until the cluster stands, and it is an
// ordinary control plane afterwards.
const (
	RoleBootstrap Role = "bootstrap"
	RoleMaster    Role = "master"
	RoleWorker    Role = "worker"
)

// ControlPlane reports whether a host of this role runs API server and etcd.
func (r Role) ControlPlane() bool { return r == RoleBootstrap || r == RoleMaster }

// File is one file to be written: rendered bytes and their place.
type File struct {
	// Path is absolute for a file of a host, and relative to the install
	// directory for a file that is handed to a person.
	Path string
	Data []byte
	// Mode holds the permission bits. Zero means DefaultFileMode.
	Mode fs.FileMode
}

// DefaultFileMode is the mode of a rendered file that holds no secret.
const DefaultFileMode fs.FileMode = 0o644

// SecretFileMode is the mode of every file that holds a key, a password or a
// token.
const SecretFileMode fs.FileMode = 0o600

// Perm returns the mode to write the file with.
func (f File) Perm() fs.FileMode {
	if f.Mode == 0 {
		return DefaultFileMode
	}
	return f.Mode
}

// SortFiles orders files by path, so that rendered sets compare equal, whatever
// order they were produced in.
func SortFiles(files []File) {
	slices.SortStableFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
}

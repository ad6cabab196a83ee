// Package plan compares what an Ignition configuration asks of a host with
// what the host is, and lists the steps between the two: the dry run and the
// real run follow the same list.
//
// It takes values and returns values. Looking at the host and taking the
// steps is internal/install/apply's.
package plan

import (
	"io/fs"
	"path"
	"slices"
)

// Desired is what a configuration asks of a package-based host.
type Desired struct {
	// Hash tells configurations apart: sha256 of their canonical bytes, in hex.
	Hash        string
	Groups      []Group
	Users       []User
	Directories []Directory
	// Files hold the configuration's files and those of its units.
	Files    []File
	Links    []Link
	Units    []Unit
	Packages Packages
}

// Name is an account of the host, by number or, where ID is nil, by name.
// Empty means root.
type Name struct {
	ID   *int
	Name string
}

// Owner is who owns a file, a directory or a link.
type Owner struct {
	User, Group Name
	// OwnGroup makes the group the user's own, whatever it is.
	OwnGroup bool
}

// Group is one group that shall exist.
type Group struct {
	Field  string
	Name   string
	GID    *int
	System bool
	// Absent asks for the opposite.
	Absent bool
}

// User is one account that shall exist.
type User struct {
	// Field is where the configuration says so.
	Field string
	Name  string
	UID   *int
	Gecos string
	// Home is empty where the configuration names none.
	Home         string
	Shell        string
	PrimaryGroup string
	Groups       []string
	// PasswordHash is a secret.
	PasswordHash string
	Keys         []string
	NoCreateHome bool
	NoUserGroup  bool
	System       bool
	// Absent asks for the opposite.
	Absent bool
}

// Directory is one directory that shall exist.
type Directory struct {
	Field string
	Path  string
	// Mode is nil where the configuration names none.
	Mode  *fs.FileMode
	Owner Owner
}

// File is one file that shall exist.
type File struct {
	Field string
	Path  string
	// Contents is what the file starts with, if Replace is set.
	Contents []byte
	// Replace is false where only a file's existence, its mode or what is
	// appended to it matters.
	Replace bool
	// Append are fragments that the file shall hold after its own contents.
	Append [][]byte
	// Overwrite allows to replace something else at the path.
	Overwrite bool
	// Mode is nil where the configuration names none.
	Mode  *fs.FileMode
	Owner Owner
	// Unit is the name of the systemd unit that the file belongs to, if any.
	Unit string
}

// Link is one link that shall exist.
type Link struct {
	Field     string
	Path      string
	Target    string
	Hard      bool
	Overwrite bool
	Owner     Owner
}

// Unit is what shall become of a systemd unit, its files apart.
type Unit struct {
	Field string
	Name  string
	// Enabled and Masked are nil where the configuration leaves it.
	Enabled *bool
	Masked  *bool
}

// UnitDir is where a configuration's units are written.
const UnitDir = "/etc/systemd/system"

func (u Unit) path() string { return path.Join(UnitDir, u.Name) }

func (u Unit) wanted() bool { return u.Enabled != nil && *u.Enabled && !u.masked() }

func (u Unit) masked() bool { return u.Masked != nil && *u.Masked }

// PackagesFile is the file of a configuration that names the packages which
// the host needs: {"apt": [...], "dnf": [...]}.
const PackagesFile = "/etc/holdfast/packages.json"

// Packages are the names of what a host needs, for each package manager.
type Packages struct {
	APT []string `json:"apt"`
	DNF []string `json:"dnf"`
}

// For returns the names for a package manager, "apt" or "dnf".
func (p Packages) For(manager string) []string {
	switch manager {
	case "apt":
		return p.APT
	case "dnf":
		return p.DNF
	default:
		return nil
	}
}

// UnitNames returns the units whose state has to be looked up, sorted.
func (d Desired) UnitNames() []string {
	var names []string
	for _, u := range d.Units {
		names = append(names, u.Name)
	}
	return distinct(names)
}

// Paths returns the paths that have to be looked up, sorted. It needs the
// accounts, since a user's keys lie in the home directory.
func (d Desired) Paths(users map[string]Account) []string {
	var paths []string
	for _, n := range d.Directories {
		paths = append(paths, n.Path)
	}
	for _, n := range d.Files {
		paths = append(paths, n.Path)
	}
	for _, n := range d.Links {
		paths = append(paths, n.Path)
		if n.Hard {
			paths = append(paths, n.Target)
		}
	}
	for _, u := range d.Units {
		paths = append(paths, u.path())
	}
	for _, u := range d.Users {
		home := homeOf(u, users)
		paths = append(paths, home, path.Join(home, ".ssh"), path.Join(home, ".ssh", keysFile))
	}
	return distinct(paths)
}

// distinct returns the names sorted, each once, without the empty one.
func distinct(names []string) []string {
	names = slices.DeleteFunc(names, func(s string) bool { return s == "" })
	slices.Sort(names)
	return slices.Compact(names)
}

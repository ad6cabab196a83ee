// Package plan compares the state of a host with what an Ignition config asks
// for, and lists the steps between the two. The dry run and the real run use
// the same list.
//
// The package takes values and returns values. Package internal/install/apply
// examines the host and takes the steps.
package plan

import (
	"io/fs"
	"path"
	"slices"
)

// Desired is the state that a configuration asks of a package-based host.
type Desired struct {
	// Hash identifies the configuration: sha256 of its canonical bytes, in hex.
	Hash        string
	Groups      []Group
	Users       []User
	Directories []Directory
	// Files holds the configuration's files and those of its units.
	Files    []File
	Links    []Link
	Units    []Unit
	Packages Packages
}

// Name identifies an account of the host by number or, if ID is nil, by name.
// Empty means root.
type Name struct {
	ID   *int
	Name string
}

// Owner is the owner of a file, a directory or a link.
type Owner struct {
	User, Group Name
	// OwnGroup selects the user's own group, whatever it is.
	OwnGroup bool
}

// Group is a group that must exist.
type Group struct {
	Field  string
	Name   string
	GID    *int
	System bool
	// Absent means that it must not exist.
	Absent bool
}

// User is an account that must exist.
type User struct {
	// Field is the path of the user in the configuration.
	Field string
	Name  string
	UID   *int
	Gecos string
	// Home is empty if the configuration names none.
	Home         string
	Shell        string
	PrimaryGroup string
	Groups       []string
	// PasswordHash is a secret.
	PasswordHash string
	Keys         []string
	// KeysOf names whose keys these are, so that several configurations can each
	// have a part of the file. Empty stands for the Ignition config of the host.
	KeysOf       string
	NoCreateHome bool
	NoUserGroup  bool
	System       bool
	// Absent means that it must not exist.
	Absent bool
}

// Directory is a directory that must exist.
type Directory struct {
	Field string
	Path  string
	// Mode is nil if the configuration names none.
	Mode  *fs.FileMode
	Owner Owner
}

// File is a file that must exist.
type File struct {
	Field string
	Path  string
	// Contents is the beginning of the file, if Replace is set.
	Contents []byte
	// Replace is false if only the file's existence, its mode or the appended
	// fragments matter.
	Replace bool
	// Append lists fragments that the file must contain after its own contents.
	Append [][]byte
	// Overwrite allows the replacement of something else at the path.
	Overwrite bool
	// Mode is nil if the configuration names none.
	Mode  *fs.FileMode
	Owner Owner
	// Unit is the name of the systemd unit to which the file belongs, if any.
	Unit string
}

// Link is a link that must exist.
type Link struct {
	Field     string
	Path      string
	Target    string
	Hard      bool
	Overwrite bool
	Owner     Owner
}

// Unit is the wanted state of a systemd unit, without its files.
type Unit struct {
	Field string
	Name  string
	// Enabled and Masked are nil if the configuration does not set them.
	Enabled *bool
	Masked  *bool
}

// UnitDir is the folder for a configuration's units.
const UnitDir = "/etc/systemd/system"

func (u Unit) path() string { return path.Join(UnitDir, u.Name) }

func (u Unit) wanted() bool { return u.Enabled != nil && *u.Enabled && !u.masked() }

func (u Unit) masked() bool { return u.Masked != nil && *u.Masked }

// PackagesFile is the file of a configuration that lists the packages which the
// host needs: {"apt": [...], "dnf": [...]}.
const PackagesFile = "/etc/holdfast/packages.json"

// Packages lists the needed packages for each package manager.
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

// UnitNames returns the units whose state must be read, sorted.
func (d Desired) UnitNames() []string {
	var names []string
	for _, u := range d.Units {
		names = append(names, u.Name)
	}
	return distinct(names)
}

// Paths returns the paths whose state must be read, sorted. It needs the
// accounts, because a user's keys are in the home directory.
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

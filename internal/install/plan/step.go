package plan

import "io/fs"

// Plan is the way from what a host is to what it shall be.
type Plan struct {
	// Hash is that of the configuration.
	Hash string `json:"hash"`
	// Steps are in the order to take them. Each may be repeated: a run that is
	// cut anywhere is finished by making a new plan and following that.
	Steps []Step `json:"steps"`
	// Notes tell what a person should know and no step changes.
	Notes []string `json:"notes,omitempty"`
}

// Step is one change of the host.
type Step struct {
	// ID names the step, the same in every plan for the same change.
	ID string `json:"id"`
	// Why is one phrase for a person.
	Why  string `json:"why"`
	Kind Kind   `json:"kind"`
	// Path is the file, directory or link that changes, or empty.
	Path string `json:"path,omitempty"`
	// Diff shows the change. What the file's mode hides from others is not in
	// it.
	Diff string `json:"diff,omitempty"`
	// Action is what to do.
	Action Action `json:"-"`
}

// Kind is what a step changes.
type Kind string

// The kinds of steps.
const (
	StepPackages  Kind = "packages"
	StepGroup     Kind = "group"
	StepUser      Kind = "user"
	StepDirectory Kind = "directory"
	StepFile      Kind = "file"
	StepLink      Kind = "link"
	StepUnit      Kind = "unit"
	StepRemove    Kind = "remove"
)

// Action is what a step does: one of the types of this file. An Owner that is
// nil leaves the owner as it is.
type Action interface{ action() }

// InstallPackages installs packages from the host's repositories.
type InstallPackages struct {
	Manager string
	Names   []string
}

// CreateGroup adds a group.
type CreateGroup struct{ Group Group }

// CreateUser adds an account, without password and keys.
type CreateUser struct{ User User }

// ChangeUser changes an account: empty fields stay as they are.
type ChangeUser struct {
	Name      string
	Shell     string
	AddGroups []string
}

// SetPassword sets an account's password hash, which is a secret.
type SetPassword struct{ Name, Hash string }

// MakeDirectory makes a directory, or sets the mode and owner of one.
type MakeDirectory struct {
	Path  string
	Mode  fs.FileMode
	Owner *Owner
}

// WriteFile replaces a file by another, atomically.
type WriteFile struct {
	Path  string
	Data  []byte
	Mode  fs.FileMode
	Owner *Owner
}

// SetMode sets the mode and owner of a file and leaves its contents alone.
type SetMode struct {
	Path  string
	Mode  fs.FileMode
	Owner *Owner
}

// MakeLink makes a link or replaces one, atomically.
type MakeLink struct {
	Path   string
	Target string
	Hard   bool
	Owner  *Owner
}

// Remove removes a file or a link.
type Remove struct{ Path string }

// Reload makes systemd read its units anew.
type Reload struct{}

// Enable makes a unit start at boot; Again renews what an older unit file
// asked for.
type Enable struct {
	Unit  string
	Again bool
}

// Disable keeps a unit from starting at boot.
type Disable struct{ Unit string }

// Start starts a unit.
type Start struct{ Unit string }

// Stop stops a unit.
type Stop struct{ Unit string }

func (*InstallPackages) action() {}
func (*CreateGroup) action()     {}
func (*CreateUser) action()      {}
func (*ChangeUser) action()      {}
func (*SetPassword) action()     {}
func (*MakeDirectory) action()   {}
func (*WriteFile) action()       {}
func (*SetMode) action()         {}
func (*MakeLink) action()        {}
func (*Remove) action()          {}
func (*Reload) action()          {}
func (*Enable) action()          {}
func (*Disable) action()         {}
func (*Start) action()           {}
func (*Stop) action()            {}

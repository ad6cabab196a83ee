package plan

import "io/fs"

// Plan is the list of steps from the present to the desired state of a host.
type Plan struct {
	// Hash is the hash of the configuration.
	Hash string `json:"hash"`
	// Steps are in the order in which to take them. Each may be repeated: if a run
	// is cut anywhere, a new plan finishes the work.
	Steps []Step `json:"steps"`
	// Notes lists facts that a reader should know and that no step changes.
	Notes []string `json:"notes,omitempty"`
}

// Step is one change of the host.
type Step struct {
	// ID names the step. The same change has the same ID in every plan.
	ID string `json:"id"`
	// Why is the reason, one phrase for people.
	Why  string `json:"why"`
	Kind Kind   `json:"kind"`
	// Path is the file, directory or link that changes, or empty.
	Path string `json:"path,omitempty"`
	// Diff shows the change, without contents that the file's mode hides from
	// others.
	Diff string `json:"diff,omitempty"`
	// Action carries out the step.
	Action Action `json:"-"`
}

// Kind says what a step changes.
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

// Action is the action of a step: one of the types in this file. A nil Owner
// leaves the owner as it is.
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

// MakeDirectory creates a directory, or sets the mode and owner of an existing
// one.
type MakeDirectory struct {
	Path  string
	Mode  fs.FileMode
	Owner *Owner
}

// WriteFile replaces a file atomically.
type WriteFile struct {
	Path  string
	Data  []byte
	Mode  fs.FileMode
	Owner *Owner
}

// SetMode sets the mode and owner of a file and keeps its contents.
type SetMode struct {
	Path  string
	Mode  fs.FileMode
	Owner *Owner
}

// MakeLink creates a link, or replaces one atomically.
type MakeLink struct {
	Path   string
	Target string
	Hard   bool
	Owner  *Owner
}

// Remove removes a file or a link.
type Remove struct{ Path string }

// Reload makes systemd read its units again.
type Reload struct{}

// Enable makes a unit start at boot. Again first removes what an older unit
// file asked for.
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

package plan

import "io/fs"

// Observed is what a host is, as far as a configuration asks for it.
type Observed struct {
	// Live is true where the looked-at root is that of the running system:
	// only then are there packages to install and units to start.
	Live   bool
	Nodes  map[string]Node
	Users  map[string]Account
	Groups map[string]int
	Units  map[string]UnitState
	// Packages is what the host says about the packages asked for.
	Packages PackageState
	Journal  Journal
}

// NodeKind is what lies at a path.
type NodeKind string

// The kinds of what lies at a path. KindOther is a device, a socket and the
// like.
const (
	KindAbsent    NodeKind = ""
	KindFile      NodeKind = "file"
	KindDirectory NodeKind = "directory"
	KindLink      NodeKind = "link"
	KindOther     NodeKind = "special file"
)

// Node is what lies at a path, not followed if it is a link.
type Node struct {
	Kind NodeKind
	// Mode holds the permission bits with setuid, setgid and sticky.
	Mode     fs.FileMode
	UID, GID int
	// Data is a file's contents.
	Data []byte
	// Target is where a link leads.
	Target string
	// Identity is equal for two paths of the same file (device and inode).
	Identity string
	// Blocked is the nearest parent that exists and is no directory, or empty.
	Blocked string
	// Leftovers are the paths of temporary files that a killed run left beside.
	Leftovers []string
}

// Account is one account of the host.
type Account struct {
	UID, GID int
	Home     string
	Shell    string
	// Groups are the supplementary groups.
	Groups []string
	// PasswordHash is a secret.
	PasswordHash string
}

// UnitState is what systemd says of a unit.
type UnitState struct {
	// Enabled is the word of `systemctl is-enabled`, "not-found" if there is
	// no such unit.
	Enabled string
	// Active is the unit's ActiveState; empty if unknown.
	Active string
	// Type is the service's type; empty for other units.
	Type string
	// Skipped is true where the last start found a condition unmet.
	Skipped bool
	// Stale is true where systemd has not read the newest unit file.
	Stale bool
}

// PackageState is what the host says about the packages asked for.
type PackageState struct {
	// Manager is "apt", "dnf", or empty where the host has neither.
	Manager string
	// Missing are those of the names asked for that are not installed.
	Missing []string
}

// Journal is what earlier runs left on record. Hashes are Desired.Hash.
type Journal struct {
	// InProgress is the configuration that a run began and did not finish.
	InProgress string `json:"inProgress,omitempty"`
	// Applied is the last configuration that a run finished.
	Applied string `json:"applied,omitempty"`
	// Started is the last configuration whose units a run started.
	Started string `json:"started,omitempty"`
	// Source identifies what the first boot was told to apply.
	Source string `json:"source,omitempty"`
}

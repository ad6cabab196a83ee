package plan

import "io/fs"

// Observed is the state of a host, as far as a configuration asks for it.
type Observed struct {
	// Live is true if the examined root is that of the running system: only then
	// packages can be installed and units started.
	Live   bool
	Nodes  map[string]Node
	Users  map[string]Account
	Groups map[string]int
	Units  map[string]UnitState
	// Packages is the state of the requested packages.
	Packages PackageState
	Journal  Journal
}

// NodeKind is the kind of node at a path.
type NodeKind string

// The kinds of nodes. KindOther is a device, a socket and the like.
const (
	KindAbsent    NodeKind = ""
	KindFile      NodeKind = "file"
	KindDirectory NodeKind = "directory"
	KindLink      NodeKind = "link"
	KindOther     NodeKind = "special file"
)

// Node is the node at a path. A link is not followed.
type Node struct {
	Kind NodeKind
	// Mode holds the permission bits with setuid, setgid and sticky.
	Mode     fs.FileMode
	UID, GID int
	// Data holds a file's contents.
	Data []byte
	// Target is the target of a link.
	Target string
	// Identity is equal for two paths of the same file (device and inode).
	Identity string
	// Blocked is the nearest existing parent if that is no directory, otherwise
	// empty.
	Blocked string
	// Leftovers lists temporary files that a killed run left beside the node.
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

// UnitState is the state of a unit according to systemd.
type UnitState struct {
	// Enabled is the output of `systemctl is-enabled`, "not-found" if there is no
	// such unit.
	Enabled string
	// Active is the unit's ActiveState; empty if unknown.
	Active string
	// Type is the service's type; empty for other units.
	Type string
	// Skipped is true if a condition was not met at the last start.
	Skipped bool
	// Stale is true if systemd has not read the newest unit file.
	Stale bool
}

// PackageState is the state of the requested packages.
type PackageState struct {
	// Manager is "apt" or "dnf"; empty if the host has neither.
	Manager string
	// Missing lists the requested packages that are not installed.
	Missing []string
}

// Journal is the record of earlier runs. Hashes are Desired.Hash.
type Journal struct {
	// InProgress is the configuration of a run that began and did not finish.
	InProgress string `json:"inProgress,omitempty"`
	// Applied is the configuration of the last finished run.
	Applied string `json:"applied,omitempty"`
	// Started is the last configuration whose units a run started.
	Started string `json:"started,omitempty"`
	// Source identifies the configuration that the first boot had to apply.
	Source string `json:"source,omitempty"`
}

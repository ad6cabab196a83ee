package state

import "time"

// Paths by which the parts of a two-node host speak to each other. What lies
// below /run ends with the boot, as the facts do that it holds.
const (
	// EtcdSocketPath is where the agent of etcd answers; only root may ask.
	EtcdSocketPath = "/run/holdfast/etcd/agent.sock"
	// EtcdConfirmationPath holds a person's Confirmation, written by `holdfast
	// quorum confirm`.
	EtcdConfirmationPath = "/run/holdfast/confirmation.json"
	// FencedDir holds one file NAME.json (EtcdFenced) for each host that this
	// one fenced in this boot, written by the fence agent after it has read the
	// power state back.
	FencedDir = "/run/holdfast/fenced"
	// FencingDir holds one root-only file NAME.json (FencingDevice) for each
	// host that may be fenced.
	FencingDir = "/etc/holdfast/fencing"
	// FencingHistoryPath keeps every fence, one JSON object in a line.
	FencingHistoryPath = "/var/lib/holdfast/fencing/history.jsonl"
)

// FencingDevice is a BMC and the account that may switch its host off. Its
// file is root-only.
type FencingDevice struct {
	Target   string `json:"target"`  // the node that it switches
	Address  string `json:"address"` // as in the install configuration
	Username string `json:"username"`
	Password string `json:"password"` //nolint:gosec // the file's purpose; never logged
	// Insecure is true where no authority vouches for the BMC's certificate: it is
	// pinned at first sight, and nothing is said to it before.
	Insecure bool `json:"insecure,omitempty"`
	// Fingerprint pins the BMC's certificate: SHA-256 in hex, empty for none.
	Fingerprint string `json:"fingerprint,omitempty"`
	// FirstSight is true where the pin is what the BMC showed when it was first
	// tested, and no person has named it.
	FirstSight bool `json:"firstSight,omitempty"`
	// UUID and Serial are the machine's own, learned from its SMBIOS while it
	// was healthy. A BMC that reports others is another machine's.
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
	// SystemID is what a person says that the BMC reports of this machine, as
	// UUID or as serial number. It goes before UUID and Serial.
	SystemID string `json:"systemID,omitempty"`
	// LegacyTLS allows TLS below 1.2 and key exchange without forward secrecy,
	// for this BMC.
	LegacyTLS bool `json:"legacyTLS,omitempty"`
	// Delay is what a fence of this target waits first, so that of two hosts
	// that fence each other one is off before the other begins.
	Delay time.Duration `json:"delay,omitempty"`
}

// Keys of a BMC's Secret that hold a pin: what a person named, and what a host
// saw when it first tested the BMC. The second counts only without the first, and
// only where no authority is to vouch for the certificate.
const (
	FencingPinKey      = "fingerprint"
	FencingFirstPinKey = "firstSeenFingerprint"
)

// EtcdWish is what Pacemaker wants of etcd on this host.
type EtcdWish string

// The wishes.
const (
	EtcdNotAsked EtcdWish = "not-asked" // nothing was asked for since boot
	EtcdStarted  EtcdWish = "started"
	EtcdStopped  EtcdWish = "stopped"
)

// EtcdReport is what the agent of etcd on a host tells whoever asks.
type EtcdReport struct {
	Wish     EtcdWish     `json:"wish"`
	Snapshot EtcdSnapshot `json:"snapshot"`
	Verdict  EtcdVerdict  `json:"verdict"`
	// At is when the snapshot was taken; Since is how long the verdict's rule
	// has been the same.
	At    time.Time     `json:"at"`
	Since time.Duration `json:"since"`
	// Down is how long etcd has been down while it should run.
	Down time.Duration `json:"down,omitempty"`
	// Outdated is true while etcd runs by another manifest than the one that
	// lies on this host now; unknown where it does not run here under podman.
	Outdated Fact[bool] `json:"outdated"`
	// Problem is what the last step ran into, empty where it worked.
	Problem string `json:"problem,omitempty"`
	// Reach is what this host knows of its own reach.
	Reach Reach `json:"reach,omitzero"`
	// StandIn is how the last take-over went, as the stand-in told it.
	StandIn string `json:"standIn,omitempty"`
}

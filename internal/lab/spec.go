package lab

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Family is an address family of a lab's networks.
type Family string

// The address families.
const (
	V4 Family = "v4"
	V6 Family = "v6"
)

// Platform tells who provides the API's virtual address: nobody (one address of
// one control plane) or the hosts themselves.
type Platform string

// The platforms of an install-config.
const (
	PlatformNone      Platform = "none"
	PlatformBareMetal Platform = "baremetal"
)

// DefaultPOSTDelay is the time from power-on to the start of a host's operating
// system. Real servers take minutes, and a host that boots before its peer
// notices its death hides faults.
const DefaultPOSTDelay = 40 * time.Second

// Spec describes the lab that the user wants. The zero value of each field but
// Name and ControlPlanes means its default.
type Spec struct {
	// Name is 1 to 16 characters of a-z and 0-9, starting with a letter.
	Name string `json:"name"`
	// ControlPlanes is 1, 2, 3 or 5.
	ControlPlanes int `json:"controlPlanes"`
	// SpareControlPlanes is the number of further control-plane hosts. They are wired, but
	// off and without an Ignition config, as machines with which a site grows later.
	SpareControlPlanes int `json:"spareControlPlanes,omitempty"`
	// Workers is 0 to 20.
	Workers int `json:"workers"`
	// SpareWorkers is the number of further worker hosts. They are wired and
	// have their Ignition config, but stay off until somebody switches them on,
	// as workers that a site adds later.
	SpareWorkers int `json:"spareWorkers,omitempty"`
	// Families are the address families, the primary one first; default v4.
	Families []Family `json:"families,omitempty"`
	// POSTDelay is the time between power-on and boot; zero boots at once.
	POSTDelay time.Duration `json:"postDelay"`
	// Platform defaults to none for one control plane without spare ones, else to
	// baremetal.
	Platform Platform `json:"platform,omitempty"`
	// Bare hosts get no Ignition config: they boot their operating system and
	// wait.
	Bare bool `json:"bare,omitempty"`
	// FarWorkers is the number of workers, counted from the last, that are in a
	// second machine network behind a router.
	FarWorkers int `json:"farWorkers,omitempty"`
	// FarIngress puts the ingress VIPs into that network.
	FarIngress bool `json:"farIngress,omitempty"`
	// RouterAdvertisements makes a router advertise itself and the machine
	// network. The hosts then have no other default route of IPv6, and a
	// further address.
	RouterAdvertisements bool `json:"routerAdvertisements,omitempty"`
	// SecondNIC gives each host another NIC in its machine network.
	SecondNIC bool `json:"secondNIC,omitempty"`
	// CertificateValidity is certificateValidityPeriod of the install-config, as
	// text: "12m" has certificates renewed every few minutes.
	CertificateValidity string `json:"certificateValidity,omitempty"`
	// EtcdQuota is etcdQuotaGiB of the install-config, in GiB; 0 leaves it out.
	EtcdQuota int `json:"etcdQuota,omitempty"`
	// EtcdDisk is where the lab keeps the disk that each control plane has for etcd;
	// default DiskInMemory, and DiskOfMachine with a quota.
	EtcdDisk Disk `json:"etcdDisk,omitempty"`
	// Pull makes the hosts pull their release from a registry of the lab, as at
	// a disconnected site.
	Pull bool `json:"pull,omitempty"`
	// Swaps are the machines that took the place of others since the lab was made, the
	// oldest first. 'lab swap' adds to them.
	Swaps []Swap `json:"swaps,omitempty"`
	// Moves is how often the lab was moved to its other machine network and back since it
	// was made: it is there while the number is odd. 'lab move' counts.
	Moves int `json:"moves,omitempty"`
}

// Disk is where the lab keeps the disk of a host. On a site each host has a disk of its own.
// The hosts of a lab share that of the machine: while one of them booted, etcd of another one
// waited for 1.1 s until a write was on the disk (2026-11-29).
type Disk string

// The places.
const (
	DiskInMemory  Disk = "memory"
	DiskOfMachine Disk = "machine"
)

// maxGrown is the number of control planes that a site has after it has grown, at most.
const maxGrown = 3

// maxWorkers keeps the workers' addresses .31 to .50 within their range.
const maxWorkers = 20

// labName allows no dash. The names of a lab's namespaces and containers are
// hf-<lab>-<host>, and cleaning up by the prefix hf-<lab>- must never match
// another lab.
var labName = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)

// WithDefaults returns the spec with defaults filled in.
func (s Spec) WithDefaults() Spec {
	if len(s.Families) == 0 {
		s.Families = []Family{V4}
	}
	if s.Platform == "" {
		s.Platform = PlatformBareMetal
		if s.ControlPlanes == 1 && s.SpareControlPlanes == 0 {
			s.Platform = PlatformNone
		}
	}
	if s.EtcdDisk == "" {
		s.EtcdDisk = DiskInMemory
		if s.EtcdQuota > 0 {
			s.EtcdDisk = DiskOfMachine
		}
	}
	return s
}

// String describes a spec in words that differ between two different specs.
func (s Spec) String() string {
	words := fmt.Sprintf("%d control planes, %d workers, families %v, platform %s, POST delay %s",
		s.ControlPlanes, s.Workers, s.Families, s.Platform, s.POSTDelay)
	if s.SpareControlPlanes > 0 {
		words += fmt.Sprintf(", %d spare control planes", s.SpareControlPlanes)
	}
	if s.SpareWorkers > 0 {
		words += fmt.Sprintf(", %d spare workers", s.SpareWorkers)
	}
	if s.FarWorkers > 0 {
		words += fmt.Sprintf(", %d far workers", s.FarWorkers)
	}
	if s.FarIngress {
		words += ", far ingress"
	}
	if s.RouterAdvertisements {
		words += ", router advertisements"
	}
	if s.SecondNIC {
		words += ", second NICs"
	}
	if s.CertificateValidity != "" {
		words += ", certificates valid for " + s.CertificateValidity
	}
	if s.EtcdQuota > 0 {
		words += fmt.Sprintf(", etcd up to %d GiB", s.EtcdQuota)
	}
	if s.EtcdDisk == DiskOfMachine {
		words += ", etcd on the machine's disk"
	}
	if s.Bare {
		words += ", bare"
	}
	if s.Pull {
		words += ", release pulled"
	}
	return words
}

// Validate returns every mistake of a spec with defaults, joined.
func (s Spec) Validate() error {
	return errors.Join(
		CheckName(s.Name),
		check(slices.Contains([]int{1, 2, 3, 5}, s.ControlPlanes), "control planes: %d: must be 1, 2, 3 or 5", s.ControlPlanes),
		check(s.SpareControlPlanes == 0 || s.SpareControlPlanes > 0 && s.ControlPlanes+s.SpareControlPlanes <= maxGrown,
			"spare control planes: %d: must be 0 to %d together with the control planes", s.SpareControlPlanes, maxGrown),
		check(s.Workers >= 0 && s.Workers <= maxWorkers, "workers: %d: must be 0 to %d", s.Workers, maxWorkers),
		check(s.SpareWorkers == 0 || s.SpareWorkers > 0 && s.Workers+s.SpareWorkers <= maxWorkers,
			"spare workers: %d: must be 0 to %d together with the workers", s.SpareWorkers, maxWorkers),
		check(validFamilies(s.Families), "families: %v: must be v4, v6, or both in the wanted order", s.Families),
		check(s.POSTDelay >= 0, "POST delay: %s: must not be negative", s.POSTDelay),
		check(s.Platform == PlatformNone || s.Platform == PlatformBareMetal, "platform: %q: must be none or baremetal", s.Platform),
		check(s.Platform != PlatformNone || s.ControlPlanes == 1, "platform: none: a lab has no load balancer of its own, so it needs exactly 1 control plane"),
		check(s.Platform != PlatformNone || s.SpareControlPlanes == 0, "platform: none: a site without virtual IPs cannot grow, so it has no use for spare control planes: take baremetal"),
		check(s.FarWorkers >= 0 && s.FarWorkers <= s.Workers, "far workers: %d: must be 0 to the number of workers, %d", s.FarWorkers, s.Workers),
		check(!s.FarIngress || s.FarWorkers > 0 && s.Platform == PlatformBareMetal, "far ingress: needs far workers, and hosts that hold virtual IPs"),
		check(!s.RouterAdvertisements || slices.Contains(s.Families, V6), "router advertisements: need the family v6"),
		check(s.EtcdDisk == DiskInMemory || s.EtcdDisk == DiskOfMachine, "etcd disk: %q: must be memory or machine", s.EtcdDisk),
		check(!s.Pull || !s.Bare, "pull: bare hosts install nothing"),
		s.validateSwaps(),
		s.validateMoves(),
	)
}

// CheckName returns an error unless name is valid for a lab.
func CheckName(name string) error {
	return check(labName.MatchString(name), "name: %q: must be 1 to 16 characters of a-z and 0-9, starting with a letter", name)
}

func check(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func validFamilies(list []Family) bool {
	switch len(list) {
	case 1:
		return list[0] == V4 || list[0] == V6
	case 2:
		return slices.Contains(list, V4) && slices.Contains(list, V6)
	}
	return false
}

// ParseFamilies reads "v4", "v6", "v4,v6" or "v6,v4".
func ParseFamilies(s string) ([]Family, error) {
	known := map[string][]Family{"v4": {V4}, "v6": {V6}, "v4,v6": {V4, V6}, "v6,v4": {V6, V4}}
	list, ok := known[s]
	if !ok {
		return nil, fmt.Errorf("families: %q: must be v4, v6, v4,v6 or v6,v4", s)
	}
	return list, nil
}

package state

import (
	"slices"
	"time"
)

// FencingDevice is a BMC with the account that may switch its host off. Only
// root may read its file.
type FencingDevice struct {
	Target   string `json:"target"`  // the node that it switches
	Address  string `json:"address"` // as in the install configuration
	Username string `json:"username"`
	Password string `json:"password"` // the purpose of the file; never logged
	// Insecure is true if no authority vouches for the BMC's certificate: it is
	// pinned at first sight, and nothing is sent to the BMC before.
	Insecure bool `json:"insecure,omitempty"`
	// Fingerprint pins the BMC's certificate: SHA-256 in hex, empty for none.
	Fingerprint string `json:"fingerprint,omitempty"`
	// FirstSight is true if the pin is the certificate that the BMC showed in its
	// first test, and no person has named it.
	FirstSight bool `json:"firstSight,omitempty"`
	// UUID and Serial are the machine's own, read from its SMBIOS while it was
	// healthy. A BMC that reports others belongs to another machine.
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
	// SystemID is the UUID or the serial number of this machine that the BMC
	// reports, as given by a person. It goes before UUID and Serial.
	SystemID string `json:"systemID,omitempty"`
	// LegacyTLS allows TLS below 1.2 and key exchange without forward secrecy,
	// for this BMC.
	LegacyTLS bool `json:"legacyTLS,omitempty"`
	// Delay is the time that a fence of this target waits first, so that of two
	// hosts that fence each other one is off before the other begins.
	Delay time.Duration `json:"delay,omitempty"`
}

// Keys of a BMC's Secret that hold a pin: the one that a person named, and the
// one that a host saw when it first tested the BMC. The second counts only
// without the first, and only if no authority is to vouch for the certificate.
const (
	FencingPinKey      = "fingerprint"
	FencingFirstPinKey = "firstSeenFingerprint"
)

// BMCRepair names the step that makes a BMC usable for fencing again.
type BMCRepair string

// The repairs. Without one, the words of the problem say what to look at.
const (
	PinCertificate BMCRepair = "pin-certificate"  // accept the certificate that the BMC shows
	SetAccount     BMCRepair = "set-account"      // the BMC refuses the present one
	AllowLegacyTLS BMCRepair = "allow-legacy-tls" // the BMC has no newer encryption
)

// BMCProblem describes the failure of the last test of a BMC.
type BMCProblem struct {
	// Words say why a fence would fail, and what to do.
	Words  string
	Repair BMCRepair
}

// FencePhases holds the durations of the parts of one fence, one after the
// other.
type FencePhases struct {
	// Identify ends when the BMC has answered and has proved to be the target's.
	Identify time.Duration `json:"identify"`
	// Hold is the part of the delay that was waited.
	Hold time.Duration `json:"hold,omitempty"`
	// PowerOff is the time from the first request to the answer Off; zero if the
	// target was off already.
	PowerOff time.Duration `json:"powerOff,omitempty"`
	// Evidence is the time to write the proof.
	Evidence time.Duration `json:"evidence,omitempty"`
	// PowerOn is the time of the request to switch on again.
	PowerOn time.Duration `json:"powerOn,omitempty"`
	Total   time.Duration `json:"total"`
}

// Took returns the time from the start of a fence to its proof, without its delay. The
// other host has to wait for longer, or both go off.
func (p FencePhases) Took() time.Duration { return p.Identify + p.PowerOff + p.Evidence }

// FenceEntry is one line of the history of fences.
type FenceEntry struct {
	Time   time.Time `json:"time"`
	Target string    `json:"target"`
	// By is the host that fenced.
	By     string `json:"by"`
	Action string `json:"action"`
	// Off is true if the target was proven to be off.
	Off    bool   `json:"off"`
	Detail string `json:"detail"`
	// Requests counts the requests to cut the power; zero if the BMC reported Off
	// at first.
	Requests int         `json:"requests"`
	Phases   FencePhases `json:"phases"`
	// BMC is the address of the BMC that was asked, as in its device. Entries of older releases lack it.
	BMC string `json:"bmc,omitempty"`
}

// FenceTotal sums up all fences of a target by one host.
type FenceTotal struct {
	Proven int `json:"proven"`
	Failed int `json:"failed"`
	// Last is the last proven fence.
	Last FenceEntry `json:"last"`
	// Cuts holds how long the last proven fences took that had to cut the power,
	// oldest first. A fence of a host that was off already says nothing about how fast
	// its BMC cuts, and one of long ago nothing about the BMC of today.
	Cuts []time.Duration `json:"cuts,omitempty"`
	// Cut is the time of the last proven fence that had to cut the power.
	Cut time.Time `json:"cut"`
	// CutBy is the address of the BMC that did so, which did all of Cuts too. It is empty if an older
	// release wrote down that fence.
	CutBy string `json:"cutBy,omitempty"`
}

// cutsCounted is the number of fences by which the delay is judged.
const cutsCounted = 10

// FenceTotals maps each target to its total.
type FenceTotals map[string]FenceTotal

// Add counts one more fence.
func (all FenceTotals) Add(e FenceEntry) {
	t := all[e.Target]
	if e.Off {
		t.Proven, t.Last = t.Proven+1, e
	} else {
		t.Failed++
	}
	if e.Off && e.Requests > 0 {
		t.add(e)
	}
	all[e.Target] = t
}

// add counts a fence that had to cut the power.
func (t *FenceTotal) add(e FenceEntry) {
	if e.BMC != "" {
		*t = t.At(e.BMC)
	}
	t.Cut, t.CutBy = e.Time, e.BMC
	cuts := append(slices.Clone(t.Cuts), e.Phases.Took())
	t.Cuts = cuts[max(0, len(cuts)-cutsCounted):]
}

// At returns the total with the cuts of power by the BMC at an address alone: a BMC that is gone proves
// nothing about the one in its place. Where nobody knows which BMC it was, the cuts count.
func (t FenceTotal) At(bmc string) FenceTotal {
	if t.CutBy != "" && t.CutBy != bmc {
		t.Cut, t.CutBy, t.Cuts = time.Time{}, "", nil
	}
	return t
}

// Slowest returns the longest of Cuts, zero if there is none.
func (t FenceTotal) Slowest() time.Duration { return slices.Max(append([]time.Duration{0}, t.Cuts...)) }

// ConfirmationEntry is one line of the record of confirmations.
type ConfirmationEntry struct {
	Time   time.Time     `json:"time"`
	Host   string        `json:"host"`
	Peer   string        `json:"peer"`
	Who    string        `json:"who"`
	Why    string        `json:"why"`
	Force  bool          `json:"force"`
	Phrase string        `json:"phrase,omitempty"`
	Power  string        `json:"power"` // the power state at the peer's BMC, or why it is unknown
	Rule   string        `json:"rule"`  // the rule under which this host waited
	Record EtcdState     `json:"record"`
	Boot   string        `json:"boot"`
	At     time.Duration `json:"at"`
}

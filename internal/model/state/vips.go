package state

import (
	"encoding/json"
	"net/netip"
	"time"
)

// AnnotationDomain begins the names of Holdfast's own annotations.
const AnnotationDomain = "holdfast.io/"

// LabelHostNames marks those pods of the cluster's DNS that read the names of
// the cluster from their host: pods of older installations do not.
const LabelHostNames = AnnotationDomain + "host-names"

// Annotations of a node about virtual IPs. The host itself writes its report and
// its answers; a host or program that wants an address looked for writes a
// request.
const (
	// AnnotationVIPs holds a VIPReport.
	AnnotationVIPs = AnnotationDomain + "vips-applied"
	// AnnotationVIPProbe, followed by the name of the asker, holds a VIPProbe.
	AnnotationVIPProbe = AnnotationDomain + "vip-probe."
	// AnnotationVIPAnswer, followed by the same name, holds the VIPAnswer.
	AnnotationVIPAnswer = AnnotationDomain + "vip-answer."
)

// VIPReport is a host's report about virtual IPs and itself.
type VIPReport struct {
	// VIPs are those for which the host's network is set up.
	VIPs []netip.Addr `json:"vips"`
	// Holds lists those of them, or of earlier ones, that its interfaces have.
	Holds []netip.Addr `json:"holds,omitempty"`
	// Certificate lists the VIPs in its API server's certificate.
	Certificate []netip.Addr `json:"certificate,omitempty"`
	// Addresses are the host's own, with their networks and without VIPs.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// Hardware maps those addresses to the hardware addresses from which their
	// packets may come.
	Hardware map[netip.Addr][]string `json:"hardware,omitempty"`
	// Gateways are the routers through which it sends.
	Gateways []netip.Addr `json:"gateways,omitempty"`
	// BMCs are the names or addresses of the management controllers by which a control
	// plane fences. Each host keeps pods away from them.
	BMCs []string `json:"bmcs,omitempty"`
	// Router is true if a ready router runs on the host.
	Router bool `json:"router,omitempty"`
	// Trouble says what keeps the host from having the VIPs, empty for nothing.
	Trouble string `json:"trouble,omitempty"`
	// Peers are those of a control plane, nil while they are not settled.
	Peers *PeerReport `json:"peers,omitempty"`
}

// PeerReport lists the peers with which a control plane shares its part of the
// API, by node name in order.
type PeerReport struct {
	// VRRP lists the other control planes from which it accepts adverts about the
	// API VIPs.
	VRRP []string `json:"vrrp"`
	// Backends lists the control planes to which its balancer leads.
	Backends []string `json:"backends"`
}

// VIPProbe asks a host whether anybody on its networks answers for addresses.
type VIPProbe struct {
	// ID tells one question from the next.
	ID        string       `json:"id"`
	At        time.Time    `json:"at"`
	Addresses []netip.Addr `json:"addresses"`
}

// VIPAnswer is a host's answer to a VIPProbe.
type VIPAnswer struct {
	ID string `json:"id"`
	// Free lists the addresses for which nobody answered.
	Free []netip.Addr `json:"free,omitempty"`
	// Held maps each address to the hardware address that answered for it.
	Held map[netip.Addr]string `json:"held,omitempty"`
	// Unknown says, by address, why the host could not ask.
	Unknown map[netip.Addr]string `json:"unknown,omitempty"`
}

// ParseAnnotation reads a value that was written as JSON into an annotation. An
// absent or unreadable value, as that of another version may be, is unknown.
func ParseAnnotation[T any](text string) Fact[T] {
	var out T
	if text == "" || json.Unmarshal([]byte(text), &out) != nil {
		return Fact[T]{}
	}
	return Known(out)
}

// FormatAnnotation writes a value for an annotation.
func FormatAnnotation(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return "" // the types above hold only values that JSON can hold
	}
	return string(data)
}

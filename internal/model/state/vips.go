package state

import (
	"encoding/json"
	"net/netip"
	"time"
)

// AnnotationDomain begins the names of Holdfast's own annotations.
const AnnotationDomain = "holdfast.io/"

// LabelHostNames is on pods of the cluster's DNS that read the names of the
// cluster from their host: those of older installations do not.
const LabelHostNames = AnnotationDomain + "host-names"

// Annotations of a node about virtual IPs. The host itself writes its report
// and its answers; whoever wants an address looked for writes a request.
const (
	// AnnotationVIPs holds a VIPReport.
	AnnotationVIPs = AnnotationDomain + "vips-applied"
	// AnnotationVIPProbe and the name of who asks hold a VIPProbe.
	AnnotationVIPProbe = AnnotationDomain + "vip-probe."
	// AnnotationVIPAnswer and the same name hold the VIPAnswer.
	AnnotationVIPAnswer = AnnotationDomain + "vip-answer."
)

// VIPReport is what a host says about virtual IPs and itself.
type VIPReport struct {
	// VIPs are those that the host's network is set up for.
	VIPs []netip.Addr `json:"vips"`
	// Holds are those of them, or of earlier ones, that its interfaces have.
	Holds []netip.Addr `json:"holds,omitempty"`
	// Certificate are the VIPs that its API server's certificate is for.
	Certificate []netip.Addr `json:"certificate,omitempty"`
	// Addresses are the host's own, with their networks and without VIPs.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// Hardware are, by those addresses, the hardware addresses that their packets
	// may come from.
	Hardware map[netip.Addr][]string `json:"hardware,omitempty"`
	// Gateways are the routers that it sends through.
	Gateways []netip.Addr `json:"gateways,omitempty"`
	// Router is true where a ready router runs on the host.
	Router bool `json:"router,omitempty"`
	// Trouble names what keeps the host from having the VIPs, empty for nothing.
	Trouble string `json:"trouble,omitempty"`
	// Peers are those of a control plane, nil where they are not settled.
	Peers *PeerReport `json:"peers,omitempty"`
}

// PeerReport is whom a control plane shares its part of the API with, by node
// names in order.
type PeerReport struct {
	// VRRP are the other control planes that it hears about the API VIPs.
	VRRP []string `json:"vrrp"`
	// Backends are the control planes that its load balancer leads to.
	Backends []string `json:"backends"`
}

// VIPProbe asks a host whether anybody on its networks answers for addresses.
type VIPProbe struct {
	// ID tells one question from the next.
	ID        string       `json:"id"`
	At        time.Time    `json:"at"`
	Addresses []netip.Addr `json:"addresses"`
}

// VIPAnswer is what a host found out for a VIPProbe.
type VIPAnswer struct {
	ID string `json:"id"`
	// Free are the addresses that nobody answered for.
	Free []netip.Addr `json:"free,omitempty"`
	// Held are the hardware addresses of those who answered, by address.
	Held map[netip.Addr]string `json:"held,omitempty"`
	// Unknown says, by address, why the host could not ask.
	Unknown map[netip.Addr]string `json:"unknown,omitempty"`
}

// ParseAnnotation reads a value that was written as JSON into an annotation.
// What is absent or unreadable, as that of another version may be, is unknown.
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
		return "" // the types above have nothing that JSON cannot hold
	}
	return string(data)
}

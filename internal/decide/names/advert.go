package names

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Advert describes a host to its neighbours by multicast DNS.
type Advert struct {
	// Instance is the label of the service instance, Host that of the host. Both
	// have at most 63 bytes.
	Instance, Host string
	// Text names the cluster in full, for which the labels may be too short.
	Text []string
	// Addresses are the host's own, and Interfaces those that carry them. The host
	// is announced on these interfaces only.
	Addresses  []netip.Addr
	Interfaces []string
}

// TextCluster begins the text that names an advert's cluster.
const TextCluster = "cluster="

// DecideAdvert returns the advert of a host, and false if it has none. A
// bootstrapping host has none, because others should not count on it. A host
// that is not named yet has none, because a thousand others have the same name.
// Where the site serves the names there is none either, because nobody listens.
func DecideAdvert(view state.NetworkView) (Advert, bool) {
	short := Short(view.Host.NodeName)
	if !Ours(view) || view.Role == state.RoleBootstrap || view.Settings.Cluster == "" || !validName(short) || reserved[short] {
		return Advert{}, false
	}
	a := Advert{
		Instance: Label(view.Settings.Cluster + " Workstation-" + short), Host: Label(short),
		Text: []string{TextCluster + view.Settings.Cluster},
	}
	for _, own := range present(view) {
		if nic := carrier(view, own); nic != "" {
			a.Addresses = append(a.Addresses, own)
			if !slices.Contains(a.Interfaces, nic) {
				a.Interfaces = append(a.Interfaces, nic)
			}
		}
	}
	return a, len(a.Addresses) > 0
}

// carrier returns the interface that has an address.
func carrier(view state.NetworkView, own netip.Addr) string {
	for _, a := range view.Addresses {
		if a.Prefix.Addr() == own {
			return a.Interface
		}
	}
	return view.Host.Interface
}

// longestLabel is the limit of a label. headOfLong and tailOfLong are the parts
// of a longer one that stay on both sides of the hash in its middle.
const (
	longestLabel = 63
	headOfLong   = 15
	tailOfLong   = 16
)

// Label makes a text fit one label. A longer one keeps its beginning and its
// end, so that people recognise it, around 32 hexadecimal digits of its SHA-256.
func Label(text string) string {
	if len(text) <= longestLabel {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return strings.ToValidUTF8(text[:headOfLong], "-") + hex.EncodeToString(sum[:16]) +
		strings.ToValidUTF8(text[len(text)-tailOfLong:], "-")
}

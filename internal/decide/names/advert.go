package names

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Advert is how a host makes itself known to its neighbours by multicast DNS.
type Advert struct {
	// Instance is the service instance's label, Host the host's. Both are at
	// most 63 bytes.
	Instance, Host string
	// Text tells the cluster, which the labels may be too short for.
	Text []string
	// Addresses are the host's own, and Interfaces those that carry them: it is
	// made known there and nowhere else.
	Addresses  []netip.Addr
	Interfaces []string
}

// TextCluster begins the text that tells an advert's cluster.
const TextCluster = "cluster="

// DecideAdvert returns the advert of a host, and false while it has none: a
// bootstrapping host is none that others should count on, one that is not
// named yet would be known by the name of a thousand others, and where names
// are the site's nobody listens.
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

// carrier is the interface that has an address.
func carrier(view state.NetworkView, own netip.Addr) string {
	for _, a := range view.Addresses {
		if a.Prefix.Addr() == own {
			return a.Interface
		}
	}
	return view.Host.Interface
}

// The longest label of a name, and what is left of a longer one on both sides
// of the hash that stands for its middle.
const (
	longestLabel = 63
	headOfLong   = 15
	tailOfLong   = 16
)

// Label makes a text fit one label. A longer one keeps its beginning and its
// end, by which a person knows it, around 32 hexadecimal digits of its SHA-256.
func Label(text string) string {
	if len(text) <= longestLabel {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return strings.ToValidUTF8(text[:headOfLong], "-") + hex.EncodeToString(sum[:16]) +
		strings.ToValidUTF8(text[len(text)-tailOfLong:], "-")
}

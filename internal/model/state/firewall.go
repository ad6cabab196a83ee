package state

// FirewallAlsoPath is the file in which a person names others that the firewall
// of a host lets in, or turns its rules off.
const FirewallAlsoPath = "/etc/holdfast/firewall"

// SiteFirewall is a firewall of the site on a host, with the things that it
// refuses although the cluster needs them.
type SiteFirewall struct {
	// Name is the name of the program, or of the chain of nftables that refuses.
	Name string `json:"name"`
	// Unjudged is true if nobody can tell what it refuses.
	Unjudged bool `json:"unjudged,omitempty"`
	// Cluster lists the refused ports that the cluster needs to work, Applications
	// those of routers and Services, as firewalls write them.
	Cluster      []string `json:"cluster,omitempty"`
	Applications []string `json:"applications,omitempty"`
	// Pods are the networks of pods from which it refuses something.
	Pods []string `json:"pods,omitempty"`
}

// Refuses reports whether the firewall certainly refuses something that is
// needed.
func (f SiteFirewall) Refuses() bool { return len(f.Cluster)+len(f.Applications)+len(f.Pods) > 0 }

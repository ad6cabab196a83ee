package state

// FirewallAlsoPath is where a person says who else the firewall of a host lets
// in, or that there are to be no rules.
const FirewallAlsoPath = "/etc/holdfast/firewall"

// SiteFirewall is a firewall of the site on a host, and what it refuses that the
// cluster needs.
type SiteFirewall struct {
	// Name is that of the program, or of the chain of nftables that refuses.
	Name string `json:"name"`
	// Unjudged is true where it cannot be told what it refuses.
	Unjudged bool `json:"unjudged,omitempty"`
	// Cluster are the ports that it refuses and without which the cluster does not
	// work, Applications those of routers and Services, as firewalls write them.
	Cluster      []string `json:"cluster,omitempty"`
	Applications []string `json:"applications,omitempty"`
	// Pods are the networks of pods of which it refuses something.
	Pods []string `json:"pods,omitempty"`
}

// Refuses reports whether it is known to refuse something that is needed.
func (f SiteFirewall) Refuses() bool { return len(f.Cluster)+len(f.Applications)+len(f.Pods) > 0 }

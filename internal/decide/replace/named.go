package replace

import (
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/secret"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The site's configuration names both control planes and their BMCs. By it the configuration server
// judges who may join, agents have their rights, and pods are kept from BMCs. So the new host
// stands in it before its join file is made.

// namedRules come once nothing of the old host is left.
var namedRules = []rule{{
	step: "R3", id: "named.site", act: NameSite, when: func(f Facts) bool { return !yes(f.Named) },
	words: func(f Facts) string {
		instead := ""
		if f.Plan.New.Name != f.Plan.Old.Name {
			instead = " in place of " + f.Plan.Old.Name
		}
		return "the site's configuration names " + f.Plan.New.Name + instead + ", with its BMC; the agent of " + f.Host + " starts anew"
	},
}}

// HostNames returns the names of hosts in the configuration of a site: those of the two control
// planes. platform.baremetal.hosts cannot be given together with them.
func HostNames(c *config.InstallConfig) []string {
	var out []string
	if f := c.ControlPlane.Fencing; f != nil {
		for _, cred := range f.Credentials {
			out = append(out, cred.HostName)
		}
	}
	return out
}

// Taken says why the new host of a wish may not have its name, empty if it may. hosts are the names
// in the site's configuration, node is true if there is a Node of the name.
func Taken(w Wish, hosts []string, node bool, list retired.List) string {
	others := slices.DeleteFunc(slices.Clone(hosts), func(name string) bool { return name == w.Old })
	if err := config.NewName("--new-name", w.New.Name, others); err != nil {
		return err.Error()
	}
	if node {
		return w.New.Name + " is the name of a Node of this cluster: give the new host another one"
	}
	if h, listed := list.Of(w.New.Name); listed && h.Open() {
		return fmt.Sprintf("a host of the name %s was %s, and the name stays retired: give the new host another one", w.New.Name, h)
	}
	return ""
}

// NamedIn reports whether a configuration names the new host with its BMC, and no old host.
func (p Plan) NamedIn(c *config.InstallConfig) bool {
	if p.New.Name != p.Old.Name && slices.Contains(HostNames(c), p.Old.Name) {
		return false
	}
	f := c.ControlPlane.Fencing
	return f != nil && slices.ContainsFunc(f.Credentials, func(cred config.FencingCredential) bool {
		return cred.HostName == p.New.Name && cred.Address == p.New.BMC
	})
}

// Site returns a site whose configuration names the new host where it named the old one. dev is
// the device of the new host. The result has its account: a host must keep grow.Kept of it alone.
// Done again it changes nothing more.
func (p Plan) Site(have *site.Site, dev state.FencingDevice) *site.Site {
	out, cfg := *have, *have.Config
	out.Config = &cfg
	if f := cfg.ControlPlane.Fencing; f != nil {
		fencing := config.Fencing{Credentials: slices.Clone(f.Credentials)}
		for i, cred := range fencing.Credentials {
			if cred.HostName != p.Old.Name && cred.HostName != p.New.Name {
				continue
			}
			if at, err := bmc.Parse(cred.Address); err == nil {
				out.BMCs = slices.DeleteFunc(slices.Clone(have.BMCs), func(host string) bool { return host == at.Host })
			}
			fencing.Credentials[i] = p.credential(dev)
		}
		cfg.ControlPlane.Fencing = &fencing
	}
	return &out
}

// credential is the entry of the new host. A certificate that was only seen first is none that a
// person named.
func (p Plan) credential(dev state.FencingDevice) config.FencingCredential {
	out := config.FencingCredential{
		HostName: p.New.Name, Address: p.New.BMC, Username: dev.Username, Password: secret.Text(dev.Password),
		CertificateVerification: bmc.VerificationEnabled, SystemID: dev.SystemID,
	}
	if dev.Insecure {
		out.CertificateVerification = bmc.VerificationDisabled
	}
	if dev.LegacyTLS {
		out.TLS = bmc.TLSLegacy
	}
	if !dev.FirstSight {
		out.CertificateFingerprint = dev.Fingerprint
	}
	return out
}

// Package site joins a person's configuration with the values that the installer
// generated once: keys, tokens and identifiers. A Site is the only input of all
// files that are rendered for the hosts, so the same Site always gives the same
// bytes.
package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/secret"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/topology"
)

// Ports that every control plane serves.
const (
	APIPort          = 6443
	ConfigServerPort = 22623
)

// Path is the file in which a host keeps its Site, mode 0600.
const Path = "/etc/holdfast/site.json"

// JoinKeyPath is the file in which a control plane keeps the key of join secrets
// after a key other than the site's own was made.
const JoinKeyPath = "/etc/holdfast/join-key"

// Site is one cluster before its first host boots.
type Site struct {
	// Role is the role of the host that this copy was made for; empty in the
	// installer's own copy.
	Role state.Role
	// Config keeps every rule of package config.
	Config   *config.InstallConfig
	Identity Identity
	// BMCs are the names or addresses of the site's management controllers. A host
	// keeps pods from them. The list is empty in the installer's own copy, whose
	// configuration has them; see BMCHosts.
	BMCs []string
	// Release is the digest of the release that the site ran when this copy was made for a
	// host that joins; empty if nobody knew, and in all other copies. Upgrades do not change
	// Config.ReleaseRegistry.
	Release string
	// Restore names the backup with which etcd of the first host begins. It is nil for a
	// new site, and in the copies of all other hosts.
	Restore *Restore
	// Life tells the lives of a site apart. It is zero until the site is restored.
	Life state.Life
}

// RestorePath is the path at which the first host of a restored site waits for the snapshot.
const RestorePath = "/var/lib/holdfast/restore/etcd.db"

// Restore names a snapshot of etcd.
type Restore struct {
	// SHA256 is the digest of the snapshot in hex.
	SHA256 string `json:"sha256"`
	// Token makes the ids of this life of the site differ from those of any other one.
	Token string `json:"token"`
	// Backup is the id of the backup, and Taken the time at which it was taken; zero if the clock of
	// its host was ahead, so that nobody knows it.
	Backup string    `json:"backup"`
	Taken  time.Time `json:"taken,omitzero"`
	// Revision is the latest revision in the backup; 0 if it is not known.
	Revision int64 `json:"revision,omitempty"`
	// Former are the addresses at which API servers of the former site answer if one of its hosts
	// is switched on: its VIPs, and those of its control planes.
	Former []netip.Addr `json:"former,omitempty"`
}

// Topology returns the topology that follows from the site's numbers of hosts.
func (s *Site) Topology() topology.Topology { return topology.Of(s.Config) }

// Domain returns the domain of the cluster's names, <name>.<base domain>.
func (s *Site) Domain() string { return s.Config.ClusterDomain() }

// APIName returns the name that machines inside the site use for the API.
func (s *Site) APIName() string { return "api-int." + s.Domain() }

// ExternalAPIName returns the name that people use for the API.
func (s *Site) ExternalAPIName() string { return "api." + s.Domain() }

// APIHost returns the name or address to which hosts connect: the first API VIP
// if the site has one, else the internal name, which such a site resolves
// itself.
func (s *Site) APIHost() string {
	if vips := s.Config.APIVIPs(); len(vips) > 0 {
		return vips[0].String()
	}
	return s.APIName()
}

// APIEndpoint returns APIHost with the API's port, in the form of kubeadm's
// controlPlaneEndpoint.
func (s *Site) APIEndpoint() string { return HostPort(s.APIHost(), APIPort) }

// ConfigServerURL returns the base URL of the configuration server. It names a
// single control plane by its address if the person gave it: then a new host
// need not resolve anything.
func (s *Site) ConfigServerURL() string {
	at := s.APIHost()
	if a, lone := s.LoneAddress(); lone {
		at = a.String()
	}
	return "https://" + HostPort(at, ConfigServerPort)
}

// LoneAddress returns the address of the one control plane of a site that has
// no VIP, if the person named it.
func (s *Site) LoneAddress() (netip.Addr, bool) {
	a, named := s.RendezvousIP()
	return a, named && s.Config.ControlPlaneReplicas() == 1 && len(s.Config.APIVIPs()) == 0
}

// HostPort joins a name or an address of either family with a port.
func HostPort(host string, port uint16) string {
	if a, err := netip.ParseAddr(host); err == nil {
		return netip.AddrPortFrom(a, port).String()
	}
	return fmt.Sprintf("%s:%d", host, port)
}

// RendezvousIP returns the machine address of the host that starts the
// cluster, and whether the person named it.
func (s *Site) RendezvousIP() (netip.Addr, bool) {
	a, err := netip.ParseAddr(s.Config.RendezvousIP)
	return a, err == nil
}

// For returns the copy of the site for a host of this role. A control plane gets
// everything but the administrator's key and the accounts of BMCs: those come
// with the cluster's objects, whose Jobs hand them to the hosts that need them.
// A worker gets no private key either, and of the pull secret only the part for
// the release's registry.
func (s *Site) For(role state.Role) *Site {
	out := &Site{Role: role, Config: withoutAccounts(s.Config), Identity: s.Identity, BMCs: s.BMCHosts(), Release: s.Release, Life: s.Life}
	out.Identity.AdmissionToken = "" // a control plane mints the tokens that it needs
	out.Identity.Admin = KeyPair{}   // no host acts as the administrator
	if role == state.RoleBootstrap {
		out.Restore = s.Restore
	}
	if !role.ControlPlane() {
		out.Config = withoutSecrets(s.Config)
		out.Identity = s.Identity.public()
	}
	return out
}

// Settled returns the copy that a host keeps after its installation: without the
// things that only a joining host needs. Copies of earlier builds also held
// accounts of BMCs and the administrator's key.
func (s *Site) Settled() *Site {
	out := *s
	out.Config = withoutAccounts(s.Config)
	out.Identity.AdmissionToken = ""
	out.Identity.Admin = KeyPair{}
	out.Release = ""
	return &out
}

// JoinToken returns the short-lived secret with which a host of a role opens the
// configuration server. If host is empty, any host of the role may use it.
func (s *Site) JoinToken(role state.Role, host string) (string, error) {
	ends := s.Identity.JoinExpiry()
	return jointoken.Mint(s.Identity.JoinKey, jointoken.Claims{
		Purpose: jointoken.Config, Role: role, Host: host, Expires: ends,
		ID: tokenID(s.Identity.ClusterID, string(role), host, ends.UTC().Format(time.RFC3339)),
	})
}

// tokenID returns the name of a token for logs. The same token has the same name
// each time that the installer makes it.
func tokenID(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, " ")))
	return hex.EncodeToString(sum[:6])
}

// withoutAccounts hides the passwords of all BMCs. The other fields stay, above
// all the names of the hosts.
func withoutAccounts(c *config.InstallConfig) *config.InstallConfig {
	out := *c
	if f := c.ControlPlane.Fencing; f != nil {
		hidden := *f
		hidden.Credentials = slices.Clone(f.Credentials)
		for i := range hidden.Credentials {
			hide(&hidden.Credentials[i].Password)
		}
		out.ControlPlane.Fencing = &hidden
	}
	if p := c.Platform.BareMetal; p != nil {
		hidden := *p
		hidden.Hosts = slices.Clone(p.Hosts)
		for i := range hidden.Hosts {
			hide(&hidden.Hosts[i].BMC.Password)
		}
		out.Platform.BareMetal = &hidden
	}
	return &out
}

func hide(s *secret.Text) {
	if *s != "" {
		*s = secret.Redacted
	}
}

// BMCHosts returns the names or addresses of the site's management controllers,
// each once, in order. It holds none of their accounts.
func (s *Site) BMCHosts() []string {
	out := slices.Clone(s.BMCs)
	add := func(address string) {
		if a, err := bmc.Parse(address); err == nil {
			out = append(out, a.Host)
		}
	}
	if f := s.Config.ControlPlane.Fencing; f != nil {
		for _, c := range f.Credentials {
			add(c.Address)
		}
	}
	if p := s.Config.Platform.BareMetal; p != nil {
		for _, h := range p.Hosts {
			add(h.BMC.Address)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func withoutSecrets(c *config.InstallConfig) *config.InstallConfig {
	out := *c
	out.PullSecret = c.ReleaseAuth()
	out.ControlPlane.Fencing = nil
	if c.Platform.BareMetal != nil {
		platform := *c.Platform.BareMetal
		platform.Hosts = nil
		out.Platform.BareMetal = &platform
	}
	return &out
}

// wire is the form of a Site in a file. The configuration is text, since its
// own encoder is the only one that writes secrets out.
type wire struct {
	Role     state.Role `json:"role,omitempty"`
	Config   string     `json:"config"`
	Identity Identity   `json:"identity"`
	BMCs     []string   `json:"bmcs,omitempty"`
	Release  string     `json:"release,omitempty"`
	Restore  *Restore   `json:"restore,omitempty"`
	Life     state.Life `json:"life,omitzero"`
}

// Marshal returns the site as JSON. It holds secrets: mode 0600.
func (s *Site) Marshal() ([]byte, error) {
	text, err := config.Marshal(s.Config)
	if err != nil {
		return nil, fmt.Errorf("encode site: %w", err)
	}
	data, err := json.MarshalIndent(wire{Role: s.Role, Config: string(text), Identity: s.Identity, BMCs: s.BMCs, Release: s.Release, Restore: s.Restore, Life: s.Life}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode site: %w", err)
	}
	return append(data, '\n'), nil
}

// Unmarshal reads the form that Marshal writes. The configuration was valid when
// it was written and is not checked again: a worker's copy lacks the parts that
// only control planes may know. Errors never quote the input.
func Unmarshal(data []byte) (*Site, error) {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil || w.Config == "" {
		return nil, errDamaged
	}
	cfg, err := config.Unmarshal([]byte(w.Config))
	if err != nil {
		return nil, errDamaged
	}
	return &Site{Role: w.Role, Config: cfg, Identity: w.Identity, BMCs: w.BMCs, Release: w.Release, Restore: w.Restore, Life: w.Life}, nil
}

// errDamaged replaces the errors of decoders, which quote their input.
var errDamaged = errors.New("decode site: the file is damaged or of another version")

// MachineNetworks returns the networks of the hosts, in the site's order.
func (s *Site) MachineNetworks() ([]netip.Prefix, error) {
	var list []string
	for _, entry := range s.Config.Networking.MachineNetwork {
		list = append(list, entry.CIDR)
	}
	return prefixes("machineNetwork", list)
}

// PodNetworks returns the networks of the pods, in the site's order.
func (s *Site) PodNetworks() ([]netip.Prefix, error) {
	var list []string
	for _, entry := range s.Config.Networking.ClusterNetwork {
		list = append(list, entry.CIDR)
	}
	return prefixes("clusterNetwork", list)
}

// ServiceNetworks returns the networks of the Services, in the site's order.
func (s *Site) ServiceNetworks() ([]netip.Prefix, error) {
	return prefixes("serviceNetwork", s.Config.Networking.ServiceNetwork)
}

func prefixes(field string, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range list {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("networking.%s: %w", field, err)
		}
		out = append(out, prefix)
	}
	return out, nil
}

// Flannel reports whether Holdfast brings the pod network.
func (s *Site) Flannel() bool { return s.Config.Networking.NetworkType != config.NetworkTypeNone }

// VIPs returns all virtual IPs of the site.
func (s *Site) VIPs() []netip.Addr {
	return append(s.Config.APIVIPs(), s.Config.IngressVIPs()...)
}

// Package grow decides how a living site of one control plane becomes one of two
// (docs/adr/0092), one of two becomes one of one (docs/adr/0096) or of three (docs/adr/0097), and one of
// three becomes one of two (docs/adr/0102). It takes data and returns data; internal/install/grow writes.
package grow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/secret"
	"github.com/holdfast/holdfast/internal/model/site"
)

// The numbers of control planes of the kinds of site.
const one, two, three = 1, 2, 3

var inWords = map[int]string{one: "one", two: "two", three: "three"}

func plural(n int) string {
	if n == one {
		return "one control plane"
	}
	return inWords[n] + " control planes"
}

// Site returns the site of two control planes that this site becomes by an edited
// install-config. have is the site.json of the lone control plane, host the name of its
// node. The file is what config.Parse returns.
//
// The file may differ in the number of control planes, in controlPlane.fencing, in what
// config fills in or demands for two, and in platform.baremetal.hosts. Each other
// difference is refused, all at once, as *config.RefusedError.
//
// The result keeps the identity, the secrets and the role of have. It has the accounts of
// BMCs, which the Secrets in the cluster need; a host must keep Kept of it alone.
func Site(have *site.Site, file *config.InstallConfig, host string) (*site.Site, error) {
	return fencing(have, file, one, host)
}

// Narrowed returns the site of two control planes that this site of three becomes by an edited
// install-config. have is the site.json of one of the hosts that stay, whose names are stay. The file
// may differ as in Site, and so is the result.
func Narrowed(have *site.Site, file *config.InstallConfig, stay [2]string) (*site.Site, error) {
	return fencing(have, file, three, stay[0], stay[1])
}

// fencing returns the site of two that a site without fencing becomes. hosts are those whose BMCs the
// file has to name.
func fencing(have *site.Site, file *config.InstallConfig, from int, hosts ...string) (*site.Site, error) {
	found, err := config.Compare(have.Config, file)
	if err != nil {
		return nil, err
	}
	refused := slices.DeleteFunc(found, func(d config.Difference) bool { return follows(d, have.Config) })
	for i := range refused {
		refused[i].How = left(refused[i].How)
	}
	refused = append(refused, gates(have.Config, file)...)
	refused = append(refused, numbers(have.Config, file, from, two)...)
	refused = append(refused, accounts(file, hosts...)...)
	refused = append(refused, places(have.Config)...)
	if err := refusal(from, two, refused); err != nil {
		return nil, err
	}
	out := *have
	out.Config = withNumber(have.Config, file, two)
	out.Config.FeatureSet, out.Config.FeatureGates = file.FeatureSet, file.FeatureGates
	return &out, nil
}

// refusal returns the error of everything that keeps a site of from control planes from one of to,
// nil for nothing.
func refusal(from, to int, found []config.Difference) error {
	if len(found) == 0 {
		return nil
	}
	slices.SortStableFunc(found, func(a, b config.Difference) int { return strings.Compare(a.Path, b.Path) })
	return &config.RefusedError{
		What:        fmt.Sprintf("this site of %s cannot become one of %s as the file says it", plural(from), inWords[to]),
		Differences: found,
	}
}

// Lone returns the site of one control plane that this site of two becomes by an edited
// install-config. have is the site.json of the host that stays. The file is what config.Parse
// returns. It may differ as in Site.
//
// The feature set stays: a cluster cannot leave it. Only the gate of two control planes goes.
func Lone(have *site.Site, file *config.InstallConfig) (*site.Site, error) {
	found, err := config.Compare(have.Config, file)
	if err != nil {
		return nil, err
	}
	return withoutFencing(have, file, found, one)
}

// withoutFencing returns the site of two without what only two control planes have.
func withoutFencing(have *site.Site, file *config.InstallConfig, found []config.Difference, to int) (*site.Site, error) {
	refused := slices.DeleteFunc(found, func(d config.Difference) bool { return follows(d, have.Config) || d.Path == "featureSet" })
	for i := range refused {
		refused[i].How = left(refused[i].How)
	}
	refused = append(refused, gates(have.Config, file)...)
	refused = append(refused, numbers(have.Config, file, two, to)...)
	if err := refusal(two, to, refused); err != nil {
		return nil, err
	}
	out := *have
	out.Config = withNumber(have.Config, file, to)
	out.Config.FeatureSet = config.CustomNoUpgrade
	out.Config.FeatureGates = slices.DeleteFunc(slices.Clone(have.Config.FeatureGates), func(entry string) bool {
		gate, ok := config.ParseFeatureGate(entry)
		return ok && gate.Name == config.DualReplicaGate
	})
	out.BMCs = nil
	return &out, nil
}

// left says of a field that it must stay, by what carries its change to a living site.
func left(how string) string {
	if strings.HasPrefix(how, "holdfast ") {
		return "leave it as it was installed; in a living site: " + how
	}
	return "leave it as it is: it " + how
}

// Kept returns the copy of a site that its lone control plane keeps as site.json: without
// accounts of BMCs and without what no host keeps.
func Kept(s *site.Site) *site.Site { return s.For(s.Role).Settled() }

// follows reports whether a difference is judged apart from the others.
func follows(d config.Difference, have *config.InstallConfig) bool {
	switch {
	case d.Path == "controlPlane.replicas", strings.HasPrefix(d.Path, "controlPlane.fencing"), strings.HasPrefix(d.Path, "platform.baremetal.hosts"):
		return true
	case strings.HasPrefix(d.Path, "featureGates"):
		return true
	}
	return d.Path == "featureSet" && (customizable(d.File) || !customizable(have.FeatureSet))
}

// customizable reports whether a cluster with a feature set may have the gate of two
// control planes.
func customizable(set string) bool { return set == "" || set == config.CustomNoUpgrade }

// gates returns the differences of the feature gates, without the one of two control
// planes, and says of a feature set that it has no way to the one of two.
func gates(have, file *config.InstallConfig) []config.Difference {
	var out []config.Difference
	if !customizable(have.FeatureSet) {
		out = append(out, config.Difference{
			Path: "featureSet", Now: have.FeatureSet, File: file.FeatureSet,
			How: "two control planes need " + config.CustomNoUpgrade + ", and a cluster cannot leave the feature set that it has: install another cluster",
		})
	}
	was, is := gatesOf(have), gatesOf(file)
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if was[name] != is[name] {
			out = append(out, config.Difference{Path: "featureGates[" + name + "]", Now: was[name], File: is[name], How: "only the number of control planes changes here: leave the gates as they are"})
		}
	}
	return out
}

func gatesOf(c *config.InstallConfig) map[string]string {
	out := map[string]string{}
	for _, entry := range c.FeatureGates {
		if gate, ok := config.ParseFeatureGate(entry); ok && gate.Name != config.DualReplicaGate {
			out[gate.Name] = fmt.Sprint(gate.Enabled)
		}
	}
	return out
}

// numbers says which numbers of control planes this is for.
func numbers(have, file *config.InstallConfig, from, to int) []config.Difference {
	const path = "controlPlane.replicas"
	now, wanted := fmt.Sprint(have.ControlPlaneReplicas()), fmt.Sprint(file.ControlPlaneReplicas())
	switch {
	case have.ControlPlaneReplicas() != from:
		return []config.Difference{{Path: path, Now: now, File: wanted, How: fmt.Sprintf("only a site of %s becomes one of %s", plural(from), inWords[to])}}
	case file.ControlPlaneReplicas() != to:
		return []config.Difference{{Path: path, Now: now, File: wanted, How: fmt.Sprintf("set it to %d in the file", to)}}
	}
	return nil
}

// accounts says what is wrong with the accounts of the two hosts' BMCs. hosts are those that are known to
// be among the two.
func accounts(file *config.InstallConfig, hosts ...string) []config.Difference {
	const path = "controlPlane.fencing.credentials"
	var names []string
	var out []config.Difference
	say := func(how string) { out = append(out, config.Difference{Path: path, How: how}) }
	if f := file.ControlPlane.Fencing; f != nil {
		for i, c := range f.Credentials {
			names = append(names, c.HostName)
			if c.Password == secret.Redacted || c.Password == "" {
				out = append(out, config.Difference{
					Path: fmt.Sprintf("%s[%d].password", path, i), How: "write the password: what a cluster shows of its configuration has none",
				})
			}
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(names)))) != two || len(names) != two {
		say("the BMCs of exactly the two control planes are needed, each once: each must be able to switch the other off")
	}
	for _, host := range hosts {
		if slices.Contains(names, host) {
			continue
		}
		known := "it names no host"
		if len(names) > 0 {
			known = "it names " + strings.Join(names, " and ")
		}
		which := "this host, " + host + ","
		if len(hosts) > 1 {
			which = host + ", which stays,"
		}
		say(fmt.Sprintf("the BMC of %s is missing (%s): the other host could not switch it off", which, known))
	}
	return out
}

// places says that a site needs virtual IPs, since its API has no other address that
// moves.
func places(have *config.InstallConfig) []config.Difference {
	if have.Platform.BareMetal != nil && len(have.APIVIPs()) > 0 && len(have.IngressVIPs()) > 0 {
		return nil
	}
	return []config.Difference{{
		Path: "platform", How: "this site has no virtual IPs: its API is found at the address of this host, and a second host could not take that over. " +
			"Install another cluster of two, or one with platform.baremetal",
	}}
}

// withNumber returns the configuration of the site with a number of control planes, and with
// what of hosts the file may change.
func withNumber(have, file *config.InstallConfig, replicas int) *config.InstallConfig {
	out := *have
	out.ControlPlane.Replicas = new(int64(replicas))
	out.ControlPlane.Fencing = file.ControlPlane.Fencing
	if have.Platform.BareMetal != nil && file.Platform.BareMetal != nil {
		metal := *have.Platform.BareMetal
		metal.Hosts = file.Platform.BareMetal.Hosts
		out.Platform.BareMetal = &metal
	}
	return &out
}

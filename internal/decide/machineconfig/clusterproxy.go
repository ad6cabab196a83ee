package machineconfig

import (
	"cmp"
	"io/fs"
	"maps"
	"slices"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Where the authorities of a site are: in a ConfigMap that the object Proxy names.
const (
	BundleNamespace = "openshift-config"
	BundleKey       = "ca-bundle.crt"
	// BundleName is its name if Holdfast makes it.
	BundleName = "user-ca-bundle"
)

// The object with what the site was installed from. Of that a proxy needs the cluster's
// own networks and names, which it is not asked for.
const (
	InstallNamespace = "kube-system"
	InstallName      = "cluster-config-v1"
	InstallKey       = "install-config"
)

// ProxyKind is the kind with a site's proxy, and proxyObject the one of its objects that
// counts.
const (
	ProxyKind   = "Proxy"
	proxyName   = "cluster"
	proxyObject = ProxyKind + " " + proxyName
)

// ClusterProxy is how the hosts of a site reach what lies outside: its proxy, and the
// authorities that it adds to those of the distributions. It is for all pools.
type ClusterProxy struct {
	// Proxy has no name if somebody has deleted the object.
	Proxy configv1.Proxy
	// Bundle is the ConfigMap that Proxy names, or would name; nil if there is none.
	Bundle *corev1.ConfigMap
	// Install is the text of what the site was installed from.
	Install string
}

// BundleOf names the ConfigMap with the authorities of a site; empty if it adds none.
func BundleOf(p configv1.Proxy) string { return p.Spec.TrustedCA.Name }

// Read returns the site's install configuration with the proxy and the authorities that
// it has now. The error is a Mistakes, and holds no password.
func (p *ClusterProxy) Read() (*config.InstallConfig, error) {
	out := &config.InstallConfig{}
	if p.Proxy.Name == "" {
		return out, Mistakes{{proxyObject, "metadata.name", "somebody has deleted the object; create it again, empty if the site has no proxy and adds no authorities"}}
	}
	mistakes := p.bundle(out)
	spec := p.Proxy.Spec
	said := config.Proxy{HTTPProxy: spec.HTTPProxy, HTTPSProxy: spec.HTTPSProxy, NoProxy: spec.NoProxy}
	mistakes = append(mistakes, mistakesAt(proxyObject, config.CheckProxy(field.NewPath("spec"), said))...)
	if said.HTTPProxy+said.HTTPSProxy == "" {
		return out, mistakes.err()
	}
	installed, err := config.Made([]byte(p.Install))
	if err != nil {
		why := "cannot be read"
		if p.Install == "" {
			why = "is not there"
		}
		mistakes = append(mistakes, Mistake{
			"ConfigMap " + InstallNamespace + "/" + InstallName, "data." + InstallKey,
			why + ": nobody knows the cluster's own networks and names, which a proxy must not be asked for",
		})
		return out, mistakes.err()
	}
	installed.Proxy, installed.AdditionalTrustBundle = &said, out.AdditionalTrustBundle
	return installed, mistakes.err()
}

// bundle reads the authorities.
func (p *ClusterProxy) bundle(into *config.InstallConfig) Mistakes {
	name := BundleOf(p.Proxy)
	if name == "" {
		return nil
	}
	object := "ConfigMap " + BundleNamespace + "/" + name
	if p.Bundle == nil {
		return Mistakes{{proxyObject, "spec.trustedCA.name", "there is no " + object}}
	}
	into.AdditionalTrustBundle = p.Bundle.Data[BundleKey]
	if into.AdditionalTrustBundle == "" {
		return Mistakes{{object, "data." + BundleKey, "is missing or empty; leave spec.trustedCA.name of " + proxyObject + " empty if the site adds no authorities"}}
	}
	return mistakesAt(object, config.CheckTrustBundle(field.NewPath("data", BundleKey), into.AdditionalTrustBundle))
}

// mistakesAt returns mistakes without the values, which may hold a password.
func mistakesAt(object string, list field.ErrorList) Mistakes {
	var out Mistakes
	for _, e := range list {
		out = append(out, Mistake{object, e.Field, e.Detail})
	}
	return out
}

// Said returns the proxy, nil if there is none, and the authorities as the objects have
// them, right or wrong.
func (p *ClusterProxy) Said() (*config.Proxy, string) {
	bundle := ""
	if p.Bundle != nil && p.Bundle.Name == BundleOf(p.Proxy) {
		bundle = p.Bundle.Data[BundleKey]
	}
	spec := p.Proxy.Spec
	if said := (config.Proxy{HTTPProxy: spec.HTTPProxy, HTTPSProxy: spec.HTTPSProxy, NoProxy: spec.NoProxy}); said != (config.Proxy{}) {
		return &said, bundle
	}
	return nil, bundle
}

// Wanted returns the objects by which a site has the proxy and the authorities of an
// install configuration. What that lacks stays as it is: a file from a drawer must not cut
// all hosts off.
func (p *ClusterProxy) Wanted(c *config.InstallConfig) Wanted {
	if p == nil || c == nil || c.Proxy == nil && c.AdditionalTrustBundle == "" {
		return Wanted{}
	}
	out := Wanted{Proxies: []configv1.Proxy{{ObjectMeta: metav1.ObjectMeta{Name: proxyName}, Spec: p.Proxy.Spec}}}
	spec := &out.Proxies[0].Spec
	if said := c.Proxy; said != nil {
		spec.HTTPProxy, spec.HTTPSProxy, spec.NoProxy = said.HTTPProxy, said.HTTPSProxy, said.NoProxy
	}
	if c.AdditionalTrustBundle == "" {
		return out
	}
	spec.TrustedCA.Name = cmp.Or(BundleOf(p.Proxy), BundleName)
	out.Bundles = []corev1.ConfigMap{{
		ObjectMeta: metav1.ObjectMeta{Namespace: BundleNamespace, Name: spec.TrustedCA.Name}, Data: map[string]string{BundleKey: c.AdditionalTrustBundle},
	}}
	return out
}

// with returns how the site reaches what lies outside once objects were written.
func (p *ClusterProxy) with(w Wanted) *ClusterProxy {
	if p == nil {
		return nil
	}
	out := *p
	if len(w.Proxies) > 0 {
		out.Proxy = merged(&p.Proxy, w.Proxies[0], proxySpec)
	}
	out.Bundle = nil
	for _, b := range laid(p.bundles(), w.Bundles, bundleData) {
		if b.Name == BundleOf(out.Proxy) {
			out.Bundle = &b
		}
	}
	return &out
}

// proxies and bundles return the objects that there are.
func (p *ClusterProxy) proxies() []configv1.Proxy {
	if p == nil || p.Proxy.Name == "" {
		return nil
	}
	return []configv1.Proxy{p.Proxy}
}

func (p *ClusterProxy) bundles() []corev1.ConfigMap {
	if p == nil || p.Bundle == nil {
		return nil
	}
	return []corev1.ConfigMap{*p.Bundle}
}

func proxySpec(to *configv1.Proxy, from configv1.Proxy) { to.Spec = from.Spec }

// bundleData leaves other keys of the ConfigMap alone.
func bundleData(to *corev1.ConfigMap, from corev1.ConfigMap) {
	to.Namespace = from.Namespace
	data := maps.Clone(to.Data)
	if data == nil {
		data = map[string]string{}
	}
	maps.Copy(data, from.Data)
	to.Data = data
}

// Status returns what the object's status says: the proxy that hosts have, with all that
// they reach without it.
func (p *ClusterProxy) Status() (configv1.ProxyStatus, error) {
	c, err := p.Read()
	if err != nil || c.Proxy == nil {
		return configv1.ProxyStatus{}, err
	}
	return configv1.ProxyStatus{HTTPProxy: c.Proxy.HTTPProxy, HTTPSProxy: c.Proxy.HTTPSProxy, NoProxy: c.NoProxy()}, nil
}

// proxyFiles returns the two files about a site's way out, and the object from which they
// are made. They are there without a proxy too: what the installation wrote at their
// place would come back otherwise.
func proxyFiles(p *ClusterProxy) (files []types.File, made []string, err error) {
	if p == nil {
		return nil, nil, nil
	}
	c, err := p.Read()
	if err != nil {
		return nil, nil, err
	}
	if c.Proxy != nil || c.AdditionalTrustBundle != "" {
		made = []string{ProxyKind + "/" + proxyName}
	}
	for _, f := range []state.File{site.ProxyFile(c), site.TrustFile(c)} {
		files = append(files, withMode(f))
	}
	return files, made, nil
}

func withMode(f state.File) types.File {
	own := ownFile(f.Path, f.Data)
	own.Mode = new(int(f.Perm()))
	return own
}

// checkProxyFile and checkTrustFile check these files as a host reads them: it believes
// no object of the API.
func checkProxyFile(d *decoder, at string, data []byte) {
	if !site.OfAProxy(data) {
		d.fault(at, "sets something else than a proxy")
	}
}

func checkTrustFile(d *decoder, at string, data []byte) {
	if !state.HasAuthorities(data) && len(data) > 0 && data[0] == '#' {
		return
	}
	for _, e := range config.CheckTrustBundle(field.NewPath("bundle"), string(data)) {
		d.fault(at, "%s", e.Detail)
	}
}

// ProxyPaths are the paths of these files.
var ProxyPaths = []string{state.ProxyPath, state.TrustPath}

// ProxyFiles returns those that a configuration has. One of an earlier release has none.
func (c Config) ProxyFiles() []state.File {
	var out []state.File
	for _, f := range c.Ignition.Storage.Files {
		data, err := ignition.Contents(f.Contents)
		if err == nil && slices.Contains(ProxyPaths, f.Path) {
			out = append(out, state.File{Path: f.Path, Data: data, Mode: fs.FileMode(*f.Mode)}) //nolint:gosec // nine bits
		}
	}
	return out
}

// ProxyFilesGiven reports whether a rendered MachineConfig among these has the two files.
func ProxyFilesGiven(list []mcfgv1.MachineConfig) bool {
	return slices.ContainsFunc(list, func(mc mcfgv1.MachineConfig) bool {
		if _, rendered := mc.Labels[LabelRendered]; !rendered {
			return false
		}
		c, err := Read(mc)
		return err == nil && len(c.ProxyFiles()) > 0
	})
}

// Beside returns a configuration with files that a host has by itself, where the
// configuration has none at their paths.
func (c Config) Beside(files []state.File) Config {
	list := slices.Clone(c.Ignition.Storage.Files)
	for _, f := range files {
		if !slices.ContainsFunc(list, func(own types.File) bool { return own.Path == f.Path }) {
			list = append(list, withMode(f))
		}
	}
	slices.SortFunc(list, func(a, b types.File) int { return cmp.Compare(a.Path, b.Path) })
	c.Ignition.Storage.Files = list
	return c
}

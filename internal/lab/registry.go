package lab

import (
	"context"
	"fmt"
	"net/netip"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/install/release"
)

// RegistryPort is the port of the gateway on which a lab's registry answers.
const RegistryPort = 5000

// registries returns the addresses at which the lab's hosts reach the registry
// that holds their release: the gateway's addresses, the primary family first.
// There are none if the hosts bring their release along.
func (l Layout) registries() []string {
	if !l.Spec.Pull {
		return nil
	}
	var out []string
	for _, gw := range l.Machine.Gateways {
		out = append(out, netip.AddrPortFrom(gw, RegistryPort).String())
	}
	return out
}

// releaseReference returns the reference that the hosts pull: version and
// digest of the release at the gateway's primary address. A registry without
// TLS is good enough, because the digest names the content.
func (l Layout) releaseReference(m release.Manifest) string {
	return fmt.Sprintf("%s/%s:%s@%s", l.registries()[0], release.Repository, m.Version, m.Digest)
}

// installConfig returns the install-config of the lab's site, with the lab's
// registry if the hosts pull their release.
func (b *Lab) installConfig() ([]byte, error) {
	text, err := b.Layout.InstallConfig()
	if err != nil || !b.Options.Spec.Pull {
		return text, err
	}
	store, err := release.Open(b.Options.Release)
	if err != nil {
		return nil, err
	}
	line, err := yaml.Marshal(document{"releaseRegistry": b.Layout.releaseReference(store.Manifest())})
	return append(text, line...), err
}

// startRegistry serves the lab's release read-only on the gateway's addresses.
// If the release's folder is missing, the lab goes on: hosts that have their
// release need no registry.
func (d *daemon) startRegistry(ctx context.Context) error {
	if !d.lab.Options.Spec.Pull {
		return nil
	}
	store, err := release.Open(d.lab.Options.Release)
	if err != nil {
		d.log.Error("no registry for the hosts", "error", err)
		return nil
	}
	for _, at := range d.lab.Layout.registries() {
		l, err := namespace(d.lab.Layout.Switch()).listen(ctx, at)
		if err != nil {
			return fmt.Errorf("registry of the lab: %w", err)
		}
		d.registries = append(d.registries, at)
		go func() {
			if err := store.Serve(ctx, l, release.TLS{}); err != nil {
				d.log.Error("registry", "address", at, "error", err)
			}
		}()
	}
	return nil
}

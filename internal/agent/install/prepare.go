package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/observe/netwatch"
	"github.com/holdfast/holdfast/internal/adapter/observe/settings"
	"github.com/holdfast/holdfast/internal/agent/operatorkey"
	"github.com/holdfast/holdfast/internal/agent/releases"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/keepalived"
)

// findAddresses waits until the host has a name and its addresses.
func (r *run) findAddresses(ctx context.Context) error {
	networks, err := r.Site.MachineNetworks()
	if err != nil {
		return err
	}
	err = r.poll(ctx, time.Second, func(context.Context) (bool, string, error) {
		facts, err := r.look(networks, r.Site.VIPs())
		r.facts = facts
		if err == nil {
			err = r.fencedByName(facts.NodeName)
		}
		return err == nil, "", err
	})
	if err == nil {
		r.goBy(r.facts.NodeName)
		r.tellFirewalls(ctx)
	}
	return err
}

// goBy makes this host report, ask and join by the name that it waited for: kubeadm joins by
// that one, and the host may have begun by another.
func (r *run) goBy(name string) {
	if r.p.Host == name {
		return
	}
	r.logf("  this host goes by %s, not by %s", name, r.p.Host)
	r.server.goBy(name)
	r.recorder.goBy(name)
}

// fencedByName returns an error if a control plane that its peer must be able to
// switch off has a name without a BMC account.
func (r *run) fencedByName(name string) error {
	fencing := r.Site.Config.ControlPlane.Fencing
	if !r.Site.Role.ControlPlane() || fencing == nil {
		return nil
	}
	var known []string
	for _, c := range fencing.Credentials {
		if c.HostName == name {
			return nil
		}
		known = append(known, c.HostName)
	}
	return fmt.Errorf("this host is called %s, but controlPlane.fencing.credentials names %s: it could not be fenced; "+
		"give it that name (hostnamectl set-hostname) or correct install-config.yaml", name, strings.Join(known, " and "))
}

// holdVIP puts the API VIPs on this host before anything can hold them by VRRP,
// so that the other hosts reach the configuration server from the first moment.
// keepalived takes them over as they are. holdVIP looks for other holders in each
// VIP's own network, as far as this host is in it. A boot takes them away again, so it
// repeats that until kubelet can start keepalived.
func (r *run) holdVIP(ctx context.Context) error {
	if host.Exists(filepath.Join(r.root, keepalived.PodPath)) && host.Exists(filepath.Join(r.root, kubeletSettings)) {
		return nil // a re-run: keepalived decides
	}
	v, err := r.network()
	if err != nil {
		return err
	}
	ask, hold, err := places(v)
	if err != nil {
		return err
	}
	for nic, vips := range ask {
		taken, err := observe.Holders(ctx, nic, vips)
		if err == nil {
			err = free(vips, taken)
		}
		if err != nil {
			return err
		}
	}
	for vip, nic := range hold {
		link, err := netlink.LinkByName(nic)
		if err != nil {
			return fmt.Errorf("interface %s: %w", nic, err)
		}
		err = netlink.AddrAdd(link, &netlink.Addr{IPNet: hostRoute(vip), Flags: unix.IFA_F_NODAD})
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("hold VIP %s on %s: %w", vip, nic, err)
		}
	}
	return nil
}

// network returns this host's network as it is before any agent keeps it.
func (r *run) network() (v state.NetworkView, err error) {
	if v.Settings, err = settings.FromSite(r.Site); err != nil {
		return v, err
	}
	now, err := netwatch.Read(nil)
	v.Role, v.Host, v.Addresses, v.Routes = r.Site.Role, r.facts, now.Addresses, now.Routes
	return v, err
}

// places returns which VIPs to ask about on which interface, and on which to hold
// those of the API. An ingress VIP in a network without this host is left for
// others to ask about. An API VIP there is an error, because this host could not
// hold it.
func places(v state.NetworkView) (ask map[string][]netip.Addr, hold map[netip.Addr]string, err error) {
	ask, hold = map[string][]netip.Addr{}, map[netip.Addr]string{}
	var errs []error
	for _, vip := range v.Settings.VIPs() {
		nic, away := vrrp.Where(v, vip)
		api := slices.Contains(v.Settings.APIVIPs, vip)
		switch {
		case away != "" && api:
			errs = append(errs, fmt.Errorf("VIP %s %s: the host that brings the cluster up holds the API's VIPs first, "+
				"so it needs an address in their network, or rendezvousIP has to name another host", vip, away))
			continue
		case away != "":
			continue
		case api:
			hold[vip] = nic
		}
		ask[nic] = append(ask[nic], vip)
	}
	return ask, hold, errors.Join(errs...)
}

// free returns an error that names every VIP that another machine answers for.
func free(vips []netip.Addr, taken map[netip.Addr]net.HardwareAddr) error {
	var errs []error
	for _, vip := range vips {
		if mac, held := taken[vip]; held {
			errs = append(errs, fmt.Errorf("VIP %s is in use by the machine with hardware address %s: "+
				"is this site installed already, or was the address given to something else?", vip, mac))
		}
	}
	return errors.Join(errs...)
}

func hostRoute(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// unpack puts the release's programs in place, makes them those of this host, and
// starts their units.
func (r *run) unpack(ctx context.Context) error {
	if err := r.store.Place(ctx, "/"); err != nil {
		return err
	}
	m := r.store.Manifest()
	if err := release.Switch("/", m.Digest); err != nil {
		return err
	}
	if err := r.handOver(m.Version, m.Digest); err != nil {
		return err
	}
	if err := os.Remove(renderhost.PodmanBridge); err != nil && !os.IsNotExist(err) {
		return err
	}
	if _, err := host.WriteFiles("/", []state.File{{Path: renderhost.ContainerdPath, Data: renderhost.Containerd(r.facts)}}); err != nil {
		return err
	}
	if err := r.systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	units := []string{"start", renderhost.ContainerdUnit}
	if r.oneOfTwo() {
		units = append(units, renderhost.EtcdUnit)
	}
	if err := r.systemctl(ctx, units...); err != nil {
		return err
	}
	// It may run since apply, with another program or for another life of the site: a restore asks it.
	return r.systemctl(ctx, "restart", renderhost.AgentUnit)
}

func (r *run) images() []string { return payload.RoleImages(r.Site.Role.ControlPlane()) }

// oneOfTwo reports whether this host is a control plane of a cluster of two.
func (r *run) oneOfTwo() bool { return r.Site.Role.ControlPlane() && r.Site.Topology().Fencing }

// loadImages gives the role's images to containerd, except those that it has
// already.
func (r *run) loadImages(ctx context.Context) error {
	have, err := releases.Containerd{}.List(ctx)
	if err != nil {
		return err
	}
	var missing []string
	for _, name := range r.images() {
		if _, known := have[payload.Image(name)]; !known {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		if err := r.sendImages(ctx, missing); err != nil {
			return err
		}
	}
	return r.pinImages(ctx)
}

func (r *run) sendImages(ctx context.Context, names []string) error {
	read, write := io.Pipe()
	go func() { write.CloseWithError(r.store.WriteImageArchive(write, names...)) }()
	return errors.Join(importImages(ctx, read), read.Close())
}

// importImages gives an archive of images to containerd. Their files are durable afterwards.
func importImages(ctx context.Context, archive io.Reader) error {
	return releases.Containerd{}.Import(ctx, archive)
}

// pinImages keeps kubelet from removing images that no container uses for a
// while. Nothing would bring them back, because they are not pulled.
func (r *run) pinImages(ctx context.Context) error {
	for _, name := range r.images() {
		if err := (releases.Containerd{}).Pin(ctx, payload.Image(name), true); err != nil {
			return err
		}
	}
	return nil
}

// writeCertificates writes the authorities where kubeadm looks for them; kubeadm
// makes every other certificate from these.
func (r *run) writeCertificates(context.Context) error {
	id := r.Site.Identity
	const dir = "/etc/kubernetes/pki/"
	signing, err := keys.SigningPair(id.KubernetesCA.Cert, id.KubernetesCA.Key)
	if err != nil {
		return err
	}
	_, err = host.WriteFiles("/", []state.File{
		{Path: dir + "ca.crt", Data: []byte(id.KubernetesCA.Cert)},
		{Path: dir + "ca.key", Data: []byte(id.KubernetesCA.Key), Mode: state.SecretFileMode},
		{Path: state.SigningPair, Data: []byte(signing), Mode: state.SecretFileMode},
		{Path: dir + "front-proxy-ca.crt", Data: []byte(id.FrontProxyCA.Cert)},
		{Path: dir + "front-proxy-ca.key", Data: []byte(id.FrontProxyCA.Key), Mode: state.SecretFileMode},
		{Path: dir + "etcd/ca.crt", Data: []byte(id.EtcdCA.Cert)},
		{Path: dir + "etcd/ca.key", Data: []byte(id.EtcdCA.Key), Mode: state.SecretFileMode},
		{Path: dir + "sa.pub", Data: []byte(id.ServiceSigner.Cert)},
		{Path: dir + "sa.key", Data: []byte(id.ServiceSigner.Key), Mode: state.SecretFileMode},
	})
	if err != nil {
		return err
	}
	_, err = operatorkey.New(r.Site.Config.CertificateLife(), r.Now).Keep() // before the operator can run here
	return err
}

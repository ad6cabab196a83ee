package readdress

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
)

const pki = "/etc/kubernetes/pki/"

// serving are the certificates that name addresses of the host, with the folder of their
// authority. kubelet asks for its own one anew when its addresses change.
var serving = []struct {
	name, authority string
	vips            bool
}{
	{"apiserver", "", true}, {"etcd/server", "etcd/", false}, {"etcd/peer", "etcd/", false},
}

// addCertificates makes the host's certificates good for the addresses of both places: until
// every host has moved, members of etcd look for one another at either.
func (h *Host) addCertificates(own []netip.Addr, to decide.Place) error {
	vips, err := to.VIPs()
	if err != nil {
		return err
	}
	return h.certificates(added(own, vips[:len(to.APIVIPs)]), h.write)
}

// Able says why the host cannot change its files to the addresses of one side of a plan, nil if
// it can: each certificate that needs other addresses is signed for them, and dropped. People
// take keys that sign off a host, and a move that begins without them does not end.
func (h *Host) Able(p decide.Plan, to decide.Side, j decide.Journal) error {
	vips, err := p.Place(to).VIPs()
	if err != nil {
		return err
	}
	own := p.Own(h.Name(), to, j)
	if len(own) == 0 {
		own = []netip.Addr{netip.IPv6Unspecified()} // it is not known yet, and no certificate has it
	}
	return h.certificates(added(own, vips[:len(p.Place(to).APIVIPs)]), func(string, []byte) error { return nil })
}

// added returns which addresses a certificate gets at another place, besides those that it has.
func added(own, vips []netip.Addr) func(have []netip.Addr, api bool) []netip.Addr {
	return func(have []netip.Addr, api bool) []netip.Addr {
		want := slices.Clone(have)
		add := own
		if api {
			add = slices.Concat(own, vips)
		}
		for _, a := range add {
			if !slices.Contains(want, a) {
				want = append(want, a)
			}
		}
		return want
	}
}

// Trim takes the addresses of the place that the host has left out of its certificates.
func (h *Host) Trim(p decide.Plan, at decide.Side, j decide.Journal) error {
	old, own := p.Own(h.Name(), at.Other(), j), p.Own(h.Name(), at, j)
	vips, err := p.Place(at.Other()).VIPs()
	if err != nil {
		return err
	}
	still, err := p.Place(at).VIPs()
	if err != nil {
		return err
	}
	return h.certificates(func(have []netip.Addr, _ bool) []netip.Addr {
		return slices.DeleteFunc(slices.Clone(have), func(a netip.Addr) bool {
			return (slices.Contains(old, a) || slices.Contains(vips, a)) && !slices.Contains(own, a) && !slices.Contains(still, a)
		})
	}, h.write)
}

// life returns the life of the certificates that this site makes.
func (h *Host) life() (time.Duration, error) {
	data, err := os.ReadFile(h.at(site.Path))
	if err != nil {
		return 0, err
	}
	s, err := site.Unmarshal(data)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", site.Path, err)
	}
	return cmp.Or(s.Config.CertificateLife(), config.CertificateLife), nil
}

// owner returns who owns a file.
func owner(info fs.FileInfo) (uid, gid int) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid), int(s.Gid)
	}
	return os.Getuid(), os.Getgid()
}

// certificates gives each certificate of the host the addresses that wanted returns, and to put.
func (h *Host) certificates(wanted func(have []netip.Addr, api bool) []netip.Addr, put func(path string, data []byte) error) error {
	life, err := h.life()
	if err != nil {
		return err
	}
	for _, c := range serving {
		old, err := os.ReadFile(h.at(pki + c.name + ".crt"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a worker has none
		}
		if err != nil {
			return err
		}
		have, err := keys.Addresses(string(old))
		if err != nil {
			return fmt.Errorf("certificate %s.crt: %w", c.name, err)
		}
		want := wanted(have, c.vips)
		if slices.Equal(have, want) {
			continue
		}
		var texts []string
		for _, path := range []string{c.name + ".key", c.authority + "ca.crt", c.authority + "ca.key"} {
			data, err := os.ReadFile(h.at(pki + path))
			if err != nil {
				return fmt.Errorf("certificate %s.crt for other addresses: %w", c.name, err)
			}
			texts = append(texts, string(data))
		}
		fresh, err := keys.Reissue(string(old), texts[0], texts[1], texts[2], want, life, h.Now())
		if err != nil {
			return fmt.Errorf("certificate %s.crt for other addresses: %w", c.name, err)
		}
		if err := put(pki+c.name+".crt", []byte(fresh)); err != nil {
			return err
		}
	}
	return nil
}

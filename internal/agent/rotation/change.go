package rotation

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/site"
)

// reloadTime is twice the time in which a program that follows a file reads it,
// also if it misses the notice.
const reloadTime = 2 * time.Minute

// change makes one change.
func (k *Keeper) change(ctx context.Context, cluster Cluster, c rotation.Change, fresh authority, now files) error {
	at := places[now.authority]
	switch c.Act {
	case rotation.WriteTrusts:
		word := markTrusts
		if sameSet(c.Trusts, now.Trusts) {
			word = markOrder
		}
		if err := k.note(now, word); err != nil {
			return err
		}
		return k.put(at.trusts, bundle(c.Trusts, now, fresh))
	case rotation.WriteKey:
		if err := k.note(now, markKey); err != nil {
			return err
		}
		return k.put(at.key, fresh.key)
	case rotation.WriteLeaf:
		return k.sign(now, bundle(now.Trusts, now, fresh))
	case rotation.Load:
		return k.load(ctx, cluster, now)
	case rotation.Rest:
	}
	return nil
}

// sameSet reports whether two lists have the same members.
func sameSet(a, b []rotation.ID) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// sign signs by the present key each leaf certificate that another one signed.
func (k *Keeper) sign(now files, trusts string) error {
	if err := k.note(now, markLeaf); err != nil {
		return err
	}
	for _, l := range now.leaves {
		if l.signer == now.Key {
			continue
		}
		cert, err := keys.Renew(l.cert, l.key, trusts, now.key, k.Life, k.Now())
		if err != nil {
			return fmt.Errorf("sign %s.crt: %w", l.path, err)
		}
		if err := k.put(l.path+".crt", cert); err != nil {
			return err
		}
	}
	return nil
}

// load has every program use what the files hold, and then removes the mark.
func (k *Keeper) load(ctx context.Context, cluster Cluster, now files) error {
	read := k.followed
	switch now.authority {
	case rotation.ServiceAccountKey:
		read = k.restarted
	case rotation.EtcdCA:
		read = k.etcdReads
	case rotation.FrontProxyCA, rotation.KubernetesCA:
	}
	if err := read(ctx, cluster, now); err != nil {
		return err
	}
	return k.remove(k.mark(now.authority))
}

// restarted restarts the programs that read the key of service accounts only when
// they start. The API server itself then says by which keys it verifies tokens.
func (k *Keeper) restarted(ctx context.Context, cluster Cluster, now files) error {
	if err := k.spared(ctx, cluster); err != nil {
		return err
	}
	if err := k.restart(ctx, apiServer); err != nil {
		return err
	}
	if err := k.verifies(ctx, now); err != nil {
		return err
	}
	if !slices.Contains(now.unread, markKey) {
		return nil // the controller manager reads nothing but the key
	}
	return k.restart(ctx, controllerManager)
}

// verifies waits until the host's API server is ready and verifies tokens by the
// keys in the file, and no others.
func (k *Keeper) verifies(ctx context.Context, now files) error {
	server, err := k.OpenAt(k.Endpoint)
	if err != nil {
		return err
	}
	want := map[string]bool{}
	for _, id := range now.Trusts {
		want[string(id)] = true
	}
	return k.await(ctx, func(ctx context.Context) error {
		if err := server.APIReady(ctx); err != nil {
			return err
		}
		got, err := server.VerifyingKeys(ctx)
		if err != nil {
			return err
		}
		have := map[string]bool{}
		for _, id := range got {
			have[id] = true
		}
		if !maps.Equal(have, want) {
			return fmt.Errorf("the API server verifies tokens by other keys than those in %s", places[now.authority].trusts)
		}
		return nil
	})
}

// followed returns nil once the API server, which follows its files, uses them.
func (k *Keeper) followed(ctx context.Context, _ Cluster, now files) error {
	if slices.Contains(now.unread, markLeaf) {
		if left := reloadTime - k.lasted(now); left > 0 {
			return waiting{fmt.Errorf("the API server reads its certificate for other servers within %s", left.Round(time.Second))}
		}
	}
	return k.takes(ctx, "the API server", k.Endpoint, places[rotation.KubernetesCA].trusts, places[now.authority].trusts)
}

// errAccepts says that a server accepts others than those in its files.
var errAccepts = errors.New("accepts other authorities than those in its files")

// takes returns nil if a server of this host accepts clients of the authorities in
// files and of no others. errAccepts is for the opposite.
func (k *Keeper) takes(ctx context.Context, name, address string, paths ...string) error {
	got, err := k.accepts(ctx, address)
	if err != nil {
		return waiting{fmt.Errorf("%s does not say which authorities it accepts: %w", name, err)}
	}
	want, err := k.subjects(paths...)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, s := range got {
		have[s] = true
	}
	if !maps.Equal(have, want) {
		return waiting{fmt.Errorf("%s %w", name, errAccepts)}
	}
	return nil
}

// subjects returns the subjects of the certificates in files.
func (k *Keeper) subjects(paths ...string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, path := range paths {
		data, err := os.ReadFile(k.Root + path)
		if err != nil {
			return nil, err
		}
		publics, err := keys.Publics(string(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, p := range publics {
			if p.Cert != nil {
				out[string(p.Cert.RawSubject)] = true
			}
		}
	}
	return out, nil
}

// dialLimit bounds one look at a server.
const dialLimit = 5 * time.Second

// accepted asks a server of this host for the authorities of clients that it names
// in a handshake.
func accepted(ctx context.Context, address string) ([]string, error) {
	ctx, stop := context.WithTimeout(ctx, dialLimit)
	defer stop()
	var out []string
	dialer := &tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // nothing is sent, and who listens on this host's own ports could change its files too
		GetClientCertificate: func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			for _, raw := range r.AcceptableCAs {
				out = append(out, string(raw))
			}
			return &tls.Certificate{}, nil
		},
	}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return out, conn.Close()
}

// hostPort returns the address of an API server on a host.
func hostPort(a netip.Addr) string { return net.JoinHostPort(a.String(), strconv.Itoa(site.APIPort)) }

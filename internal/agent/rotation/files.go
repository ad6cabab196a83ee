package rotation

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

const pki = "/etc/kubernetes/pki/"

// place says where the files of an authority are.
type place struct {
	// trusts is the file of what is trusted, key that of the private key.
	trusts, key string
	// leaves are the paths of leaf certificates and their keys, without .crt and
	// .key, in the order in which they are replaced.
	leaves []string
}

// The files of kubeadm.
var places = map[rotation.Authority]place{
	rotation.ServiceAccountKey: {trusts: pki + "sa.pub", key: pki + "sa.key"},
	rotation.FrontProxyCA:      {trusts: pki + "front-proxy-ca.crt", key: pki + "front-proxy-ca.key", leaves: []string{pki + "front-proxy-client"}},
	rotation.EtcdCA: {
		trusts: state.EtcdPKIDir + "/ca.crt", key: state.EtcdPKIDir + "/ca.key",
		leaves: []string{state.EtcdPKIDir + "/server", state.EtcdPKIDir + "/peer", state.EtcdPKIDir + "/healthcheck-client", pki + "apiserver-etcd-client"},
	},
	rotation.KubernetesCA: {trusts: pki + "ca.crt", key: pki + "ca.key"},
}

// marks is the folder of the marks that say which files programs have still to
// read. A mark is written before the files and removed when all programs have read
// them, so that a cut in between is noticed.
const marks = "/var/lib/holdfast/authorities/"

// The words of a mark: what has changed. What only got another order is trusted as
// before.
const (
	markTrusts = "trusts"
	markOrder  = "order"
	markKey    = "key"
	markLeaf   = "leaf"
)

// files are those of one authority on this host.
type files struct {
	rotation.Have
	authority rotation.Authority
	publics   []keys.Public
	key       string
	leaves    []leaf
	// unread are the words of the mark.
	unread []string
	// ends is when the certificate of the authority that signs ends.
	ends time.Time
}

// signs returns the authority of what the host shows or is about to show. While its
// files differ, that is the one that is not new.
func (f files) signs(fresh rotation.ID) rotation.ID {
	if f.Leaf == fresh {
		return f.Key
	}
	return f.Leaf
}

// read reads the files of an authority.
func (k *Keeper) read(a rotation.Authority) (files, error) {
	at, out := places[a], files{authority: a}
	trusts, err := os.ReadFile(k.Root + at.trusts)
	if err != nil {
		return out, err
	}
	if out.publics, err = keys.Publics(string(trusts)); err != nil {
		return out, fmt.Errorf("%s: %w", at.trusts, err)
	}
	for _, p := range out.publics {
		out.Trusts = append(out.Trusts, rotation.ID(p.ID))
	}
	key, err := os.ReadFile(k.Root + at.key)
	if err != nil {
		return out, err
	}
	id, err := keys.KeyID(string(key))
	if err != nil {
		return out, fmt.Errorf("%s: %w", at.key, err)
	}
	out.key, out.Key, out.Leaf = string(key), rotation.ID(id), rotation.ID(id)
	for _, p := range out.publics {
		if p.ID == id && p.Cert != nil {
			out.ends = p.Cert.NotAfter.UTC()
		}
	}
	for _, path := range at.leaves {
		if err := k.readLeaf(path, &out); err != nil {
			return out, err
		}
	}
	out.unread, err = k.unread(a)
	out.Loaded = err == nil && len(out.unread) == 0
	return out, err
}

// leaf is a leaf certificate with its key, and the authority that signed it, empty
// if none of those that are trusted did.
type leaf struct {
	path, cert, key string
	signer          rotation.ID
}

// readLeaf adds a leaf certificate. Of several, Leaf is that of one which the
// present key has not signed, if there is one.
func (k *Keeper) readLeaf(path string, out *files) error {
	cert, err := os.ReadFile(k.Root + path + ".crt")
	if err != nil {
		return err
	}
	key, err := os.ReadFile(k.Root + path + ".key")
	if err != nil {
		return err
	}
	l := leaf{path: path, cert: string(cert), key: string(key)}
	for _, p := range out.publics {
		if p.Cert != nil && keys.SignedBy(l.cert, p.Cert) {
			l.signer = rotation.ID(p.ID)
		}
	}
	if l.signer != out.Key {
		out.Leaf = l.signer
	}
	out.leaves = append(out.leaves, l)
	return nil
}

// authority is a new authority.
type authority struct {
	id        rotation.ID
	cert, key string
}

// derive derives the authority of a wish.
func (k *Keeper) derive(now files, w rotation.Wish) (out authority, err error) {
	pair, err := keys.DeriveSigner(k.Secret, w.Salt, string(now.authority))
	if now.publics[0].Cert != nil {
		pair, err = keys.DeriveCA(now.publics[0].Block, k.Secret, w.Salt, string(now.authority), w.Began)
	}
	if err != nil {
		return out, err
	}
	id, err := keys.KeyID(pair.Key)
	return authority{rotation.ID(id), pair.Cert, pair.Key}, err
}

// put writes a file with the mode that it has.
func (k *Keeper) put(path, text string) error {
	info, err := os.Stat(k.Root + path)
	if err != nil {
		return err
	}
	return k.write(k.Root+path, []byte(text), info.Mode().Perm())
}

// bundle returns the text of trusted authorities, in the order of their IDs.
func bundle(ids []rotation.ID, now files, fresh authority) string {
	var out strings.Builder
	for _, id := range ids {
		i := slices.IndexFunc(now.publics, func(p keys.Public) bool { return p.ID == string(id) })
		switch {
		case i >= 0:
			out.WriteString(now.publics[i].Block)
		case id == fresh.id:
			out.WriteString(fresh.cert)
		}
	}
	return out.String()
}

// unread returns the words of an authority's mark, none if every program has read
// the files.
func (k *Keeper) unread(a rotation.Authority) ([]string, error) {
	data, err := os.ReadFile(k.mark(a))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(data)), err
}

func (k *Keeper) mark(a rotation.Authority) string { return k.Root + marks + string(a) + ".unread" }

// note adds a word to the mark of an authority.
func (k *Keeper) note(now files, word string) error {
	if slices.Contains(now.unread, word) {
		return nil
	}
	words := strings.Join(append(slices.Clone(now.unread), word), "\n") + "\n"
	return k.write(k.mark(now.authority), []byte(words), state.SecretFileMode)
}

// sighting is what leaf certificates there are, and since when.
type sighting struct {
	digest [sha256.Size]byte
	since  time.Time
}

// lasted returns for how long this agent has seen the present leaf certificates.
func (k *Keeper) lasted(now files) time.Duration {
	var text strings.Builder
	for _, l := range now.leaves {
		text.WriteString(l.cert)
	}
	digest := sha256.Sum256([]byte(text.String()))
	if s := k.seen[now.authority]; s.digest != digest || s.since.After(k.Now()) {
		k.seen[now.authority] = sighting{digest, k.Now()}
	}
	return k.Now().Sub(k.seen[now.authority].since)
}

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
	// leaf is the path of a leaf certificate and its key, without .crt and .key;
	// empty where none is replaced here.
	leaf string
}

// The files of kubeadm.
var places = map[rotation.Authority]place{
	rotation.ServiceAccountKey: {trusts: pki + "sa.pub", key: pki + "sa.key"},
	rotation.FrontProxyCA:      {trusts: pki + "front-proxy-ca.crt", key: pki + "front-proxy-ca.key", leaf: pki + "front-proxy-client"},
	rotation.EtcdCA:            {trusts: state.EtcdPKIDir + "/ca.crt", key: state.EtcdPKIDir + "/ca.key"},
	rotation.KubernetesCA:      {trusts: pki + "ca.crt", key: pki + "ca.key"},
}

// marks is the folder of the marks that say which files programs have still to
// read. A mark is written before the files and removed when all programs have read
// them, so that a cut in between is noticed.
const marks = "/var/lib/holdfast/authorities/"

// The words of a mark: what has changed.
const (
	markTrusts = "trusts"
	markKey    = "key"
	markLeaf   = "leaf"
)

// files are those of one authority on this host.
type files struct {
	rotation.Have
	authority rotation.Authority
	publics   []keys.Public
	key       string
	// leaf and leafKey are empty without a leaf certificate.
	leaf, leafKey string
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
	if at.leaf != "" {
		if err := k.readLeaf(at, &out); err != nil {
			return out, err
		}
	}
	out.unread, err = k.unread(a)
	out.Loaded = err == nil && len(out.unread) == 0
	return out, err
}

func (k *Keeper) readLeaf(at place, out *files) error {
	leaf, err := os.ReadFile(k.Root + at.leaf + ".crt")
	if err != nil {
		return err
	}
	key, err := os.ReadFile(k.Root + at.leaf + ".key")
	if err != nil {
		return err
	}
	out.leaf, out.leafKey, out.Leaf = string(leaf), string(key), ""
	for _, p := range out.publics {
		if p.Cert != nil && keys.SignedBy(out.leaf, p.Cert) {
			out.Leaf = rotation.ID(p.ID)
		}
	}
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

// sighting is a leaf certificate, and since when it is there.
type sighting struct {
	digest [sha256.Size]byte
	since  time.Time
}

// lasted returns for how long this agent has seen the present leaf certificate.
func (k *Keeper) lasted(now files) time.Duration {
	digest := sha256.Sum256([]byte(now.leaf))
	if s := k.seen[now.authority]; s.digest != digest || s.since.After(k.Now()) {
		k.seen[now.authority] = sighting{digest, k.Now()}
	}
	return k.Now().Sub(k.seen[now.authority].since)
}

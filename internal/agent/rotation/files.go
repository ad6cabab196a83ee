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
	"github.com/holdfast/holdfast/internal/decide/leafcert"
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
	// confs are kubeconfigs, which contain what is trusted, and most of them a leaf
	// certificate too. A host may lack some.
	confs []string
}

// The files of kubeadm.
var places = map[rotation.Authority]place{
	rotation.ServiceAccountKey: {trusts: pki + "sa.pub", key: pki + "sa.key"},
	rotation.FrontProxyCA:      {trusts: pki + "front-proxy-ca.crt", key: pki + "front-proxy-ca.key", leaves: []string{pki + "front-proxy-client"}},
	rotation.EtcdCA: {
		trusts: state.EtcdPKIDir + "/ca.crt", key: state.EtcdPKIDir + "/ca.key",
		leaves: []string{state.EtcdPKIDir + "/server", state.EtcdPKIDir + "/peer", state.EtcdPKIDir + "/healthcheck-client", pki + "apiserver-etcd-client"},
	},
	rotation.KubernetesCA: {
		trusts: pki + "ca.crt", key: pki + "ca.key", leaves: []string{pki + "apiserver-kubelet-client", pki + "apiserver"},
		confs: kubeconfigs(),
	},
}

// kubeconfigs returns those that kubeadm makes on a control plane.
func kubeconfigs() []string {
	var out []string
	for _, l := range leafcert.Leaves() {
		if l.Key == "" {
			out = append(out, l.Path)
		}
	}
	return out
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
	// markKubelet begins a word with the kubelet that ran when the files were
	// complete: another one has read them.
	markKubelet = "kubelet="
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
	// uneven are the kubeconfigs that trust others than the file of trusted ones.
	uneven []string
	// unable says why this host can have no part in a rotation.
	unable string
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
	if a == rotation.KubernetesCA {
		if err := k.readKubernetes(&out); err != nil {
			return out, err
		}
	}
	out.unread, err = k.unread(a)
	out.Loaded = err == nil && len(out.unread) == 0 && len(out.uneven) == 0
	return out, err
}

// leaf is a leaf certificate with its key, and the authority that signed it, empty
// if none of those that are trusted did.
type leaf struct {
	path, cert, key string
	signer          rotation.ID
	// replace writes another certificate for the same key.
	replace func(cert string) error
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
	out.add(leaf{path: path + ".crt", cert: string(cert), key: string(key), replace: func(cert string) error { return k.put(path+".crt", cert) }})
	return nil
}

// add adds a leaf certificate.
func (f *files) add(l leaf) {
	for _, p := range f.publics {
		if p.Cert != nil && keys.SignedBy(l.cert, p.Cert) {
			l.signer = rotation.ID(p.ID)
		}
	}
	if l.signer != f.Key {
		f.Leaf = l.signer
	}
	f.leaves = append(f.leaves, l)
}

// authority is a new authority.
type authority struct {
	id        rotation.ID
	cert, key string
	// from is when its certificate begins to be valid; zero for a key.
	from time.Time
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
	if err != nil {
		return out, err
	}
	out = authority{id: rotation.ID(id), cert: pair.Cert, key: pair.Key}
	publics, err := keys.Publics(pair.Cert)
	if err == nil && publics[0].Cert != nil {
		out.from = publics[0].Cert.NotBefore
	}
	return out, err
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

// note adds a word to the mark of an authority. With a change of the files, a word
// about the kubelet that is to read them counts no more.
func (k *Keeper) note(now files, word string) error {
	words := slices.DeleteFunc(slices.Clone(now.unread), func(w string) bool { return strings.HasPrefix(w, markKubelet) })
	if slices.Contains(now.unread, word) && len(words) == len(now.unread) {
		return nil
	}
	if !slices.Contains(words, word) {
		words = append(words, word)
	}
	return k.write(k.mark(now.authority), []byte(strings.Join(words, "\n")+"\n"), state.SecretFileMode)
}

// sighting is what leaf certificates there are, and since when.
type sighting struct {
	digest [sha256.Size]byte
	since  time.Time
}

// since returns the time from which on this agent has seen the present leaf
// certificates.
func (k *Keeper) since(now files) time.Time {
	var text strings.Builder
	for _, l := range now.leaves {
		text.WriteString(l.cert)
	}
	digest := sha256.Sum256([]byte(text.String()))
	if s := k.seen[now.authority]; s.digest != digest || s.since.After(k.Now()) {
		k.seen[now.authority] = sighting{digest, k.Now()}
	}
	return k.seen[now.authority].since
}

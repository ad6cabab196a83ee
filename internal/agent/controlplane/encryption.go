package controlplane

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast/holdfast/internal/decide/encryption"
	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/kube"
	"github.com/holdfast/holdfast/internal/render/apiserver"
	"github.com/holdfast/holdfast/internal/site"
	"github.com/holdfast/holdfast/internal/state"
)

// encryptionEvery is between two looks at which keys are wanted. An API server
// itself looks at its file once a minute.
const encryptionEvery = 10 * time.Second

// wishAPI is what is asked for the wish and told what came of it, ownAPI this
// host's API server.
type (
	wishAPI interface {
		ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error)
		Annotate(ctx context.Context, node, name, value string) error
	}
	ownAPI interface {
		LoadedEncryption(ctx context.Context) (string, error)
	}
)

// keyring keeps the file of keys of this host's API server as it is wished, and
// says in its node which keys that server has.
type keyring struct {
	root    string // of the host's files
	secret  []byte // what the keys follow from
	node    string
	cluster func() (wishAPI, error)
	own     func() (ownAPI, error)
	logf    func(format string, args ...any)
	// told are the digest of the file that the node was told of, and how many looks
	// ago.
	told  string
	looks int
}

// keepEncryption does that until the context ends, on a site that has keys.
func (r *Agent) keepEncryption(ctx context.Context) {
	if !r.Site.Identity.Encrypts() {
		return
	}
	k := &keyring{
		root: "/", secret: r.Site.Identity.EncryptionRoot, node: r.facts.NodeName, logf: r.logf,
		cluster: func() (wishAPI, error) { return kube.Open(adminKubeconfig) },
		own: func() (ownAPI, error) {
			return kube.OpenAt(adminKubeconfig, "https://127.0.0.1:"+strconv.Itoa(site.APIPort))
		},
	}
	trouble := r.trouble("keys of secrets in etcd")
	for host.Sleep(ctx, encryptionEvery) == nil {
		if !r.proven() {
			continue // the installation writes the file, and it is nobody's turn yet
		}
		trouble.Hear(k.step(ctx))
	}
}

// step brings the file to what is wished, and tells the node once the API server
// has it.
func (k *keyring) step(ctx context.Context) error {
	data, err := os.ReadFile(filepath.Join(k.root, apiserver.EncryptionPath))
	if err != nil {
		return err
	}
	have, err := apiserver.Numbers(data)
	if err != nil {
		return err
	}
	cluster, err := k.cluster()
	if err != nil {
		return err
	}
	wish, err := wished(ctx, cluster)
	if err != nil {
		return err
	}
	if wish != nil && !slices.Equal(wish, have) {
		if err := encryption.Accept(have, wish); err != nil {
			return err
		}
		file, err := apiserver.Encryption(k.secret, wish)
		if err != nil {
			return err
		}
		if _, err := host.WriteFiles(k.root, []state.File{file}); err != nil {
			return err
		}
		k.logf("the API server is to have keys %s of secrets in etcd, it had %s", wish, encryption.Keys(have))
		data, have = file.Data, wish
	}
	return k.tell(ctx, cluster, data, have)
}

// wished is nil where nobody wished anything yet.
func wished(ctx context.Context, cluster wishAPI) (encryption.Keys, error) {
	data, err := cluster.ConfigMap(ctx, encryption.WishNamespace, encryption.WishName)
	if err != nil || data[encryption.WishKeys] == "" {
		return nil, err
	}
	return encryption.Parse(data[encryption.WishKeys])
}

// tell says which keys the API server has, when these are others, and now and then:
// the node may have been made anew.
func (k *keyring) tell(ctx context.Context, cluster wishAPI, data []byte, have encryption.Keys) error {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	if k.looks++; k.told == digest && k.looks < tellAnew {
		return nil
	}
	if k.told != digest {
		own, err := k.own()
		if err != nil {
			return err
		}
		loaded, err := own.LoadedEncryption(ctx)
		if err != nil || loaded != digest {
			return err // it has not looked at the file yet
		}
	}
	if err := cluster.Annotate(ctx, k.node, state.AnnotationEncryption, have.String()); err != nil {
		return err
	}
	k.told, k.looks = digest, 0
	return nil
}

// present are the numbers of the keys that this host's API server has, for a host
// that joins: the site's own are those of the first day.
func present(root string, id site.Identity) []int {
	data, err := os.ReadFile(filepath.Join(root, apiserver.EncryptionPath))
	if err != nil {
		return id.EncryptionKeys
	}
	have, err := apiserver.Numbers(data)
	if err != nil {
		return id.EncryptionKeys
	}
	return have
}

package controlplane

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/agent/rotation"
	"github.com/holdfast/holdfast/internal/decide/encryption"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/apiserver"
)

// encryptionEvery is the pause between two looks at the wanted keys. An API
// server itself reads its file once a minute.
const encryptionEvery = 10 * time.Second

// keyAPI is this host's own API server. It answers even if no Secret can be read
// with its keys, as after the restore of an old snapshot of etcd. It then says
// that it is not ready, and the load balancer gives it nothing (seen with 1.36).
// So the wanted keys are read from it and from no other.
type keyAPI interface {
	ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error)
	Annotate(ctx context.Context, node, name, value string) error
	LoadedEncryption(ctx context.Context) (string, error)
}

// keyring keeps the key file of this host's API server at the wanted keys, and
// publishes in its node which keys that server has.
type keyring struct {
	root   string // root of the host's files
	secret []byte // the keys are derived from it
	node   string
	open   func() (keyAPI, error)
	gauge  *rotation.Gauge // nil for nobody
	log    *slog.Logger
	// told is the digest of the file that was published last, looks how many
	// looks ago.
	told  string
	looks int
}

// encryptionTask keeps the keyring, on a site that has keys.
func (r *Agent) encryptionTask() loop.Task {
	k := &keyring{
		root: "/", secret: r.Site.Identity.EncryptionRoot, node: r.facts.NodeName, gauge: r.Rotations, log: r.Log,
		open: func() (keyAPI, error) {
			return openBy(state.AgentKubeconfig, "https://127.0.0.1:"+strconv.Itoa(site.APIPort))
		},
	}
	return loop.Task{Name: "encryption keys", First: encryptionEvery, Every: encryptionEvery, Limit: aRequest, NotYet: notSetUp, Step: func(ctx context.Context) (loop.Result, error) {
		return loop.Result{}, k.step(ctx)
	}}
}

// step writes the wanted keys to the file, and publishes them once the API server
// has loaded them.
func (k *keyring) step(ctx context.Context) error {
	api, err := k.open()
	if err != nil {
		return err
	}
	wish, err := wished(ctx, api)
	if err != nil {
		return err
	}
	have, kept, err := k.present()
	switch {
	case err != nil && wish.Keys == nil:
		return err
	case err == nil && wish.Keys != nil:
		if err := encryption.Accept(have, wish.Keys); err != nil {
			return err
		}
	}
	want, keeps := encryption.Follow(have, kept, wish.Keys)
	k.gauge.SetKeys(wish.Late(keeps))
	file, err := apiserver.Encryption(k.secret, want)
	if err != nil {
		return err
	}
	if keeps {
		file = apiserver.Keeping(file)
	}
	wrote, err := host.WriteFiles(k.root, []state.File{file})
	if err != nil {
		return err
	}
	if len(wrote) > 0 {
		k.log.Info("the API server gets other keys for secrets in etcd", "keys", want, "before", have)
	}
	return k.tell(ctx, api, file.Data, encryption.Told(want, keeps))
}

// present returns the key numbers in the file, and whether the last one is kept. Somebody
// may have removed or changed it.
func (k *keyring) present() (have encryption.Keys, kept bool, err error) {
	data, err := os.ReadFile(filepath.Join(k.root, apiserver.EncryptionPath))
	if err != nil {
		return nil, false, err
	}
	have, err = apiserver.Numbers(data)
	return have, apiserver.Keeps(data), err
}

// wished returns the wanted keys, none if nobody has asked for any yet.
func wished(ctx context.Context, api keyAPI) (encryption.Wish, error) {
	data, err := api.ConfigMap(ctx, encryption.WishNamespace, encryption.WishName)
	if err != nil {
		return encryption.Wish{}, err
	}
	return encryption.ReadWish(data)
}

// tell publishes the keys that the API server has, when they changed and again
// every tellAnew looks: the node may have been made anew.
func (k *keyring) tell(ctx context.Context, api keyAPI, data []byte, have string) error {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	if k.looks++; k.told == digest && k.looks < tellAnew {
		return nil
	}
	if k.told != digest {
		loaded, err := api.LoadedEncryption(ctx)
		if err != nil || loaded != digest {
			return err // it has not read the file yet
		}
	}
	if err := api.Annotate(ctx, k.node, state.AnnotationEncryption, have); err != nil {
		return err
	}
	k.told, k.looks = digest, 0
	return nil
}

// presentKeys returns the key numbers that this host's API server has, for a host
// that joins. If the file cannot be read, these are the site's own, from the
// first day.
func presentKeys(root string, id site.Identity) []int {
	have, _, err := (&keyring{root: root}).present()
	if err != nil {
		return id.EncryptionKeys
	}
	return have
}

package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/model/state"
)

// keptObjects is the folder with the copies of kubeadm's ConfigMaps.
const keptObjects = "/var/lib/holdfast/objects"

// mapAPI reads and makes kubeadm's ConfigMaps, with an administrator's account.
type mapAPI interface {
	ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error)
	PutConfigMap(ctx context.Context, namespace, name string, labels, data map[string]string) error
}

// keptMaps makes ConfigMaps of kubeadm's again after somebody deleted them: joins and
// upgrades read them, and nothing else notices that they are gone.
type keptMaps struct {
	dir  string
	now  func() time.Time
	said func(string)
	maps map[string]*keptMap
}

// keptMap has the facts about one of them.
type keptMap struct {
	data map[string]string
	seen bool
	gone time.Time
	made []time.Time
}

// step looks at each once.
func (k *keptMaps) step(ctx context.Context, api mapAPI) error {
	var errs []error
	for _, m := range deleted.ConfigMaps() {
		errs = append(errs, k.one(ctx, api, m))
	}
	return errors.Join(errs...)
}

func (k *keptMaps) one(ctx context.Context, api mapAPI, m deleted.ConfigMap) error {
	name := m.Namespace + "." + m.Name
	one, err := k.load(name)
	if err != nil {
		return err
	}
	data, err := api.ConfigMap(ctx, m.Namespace, m.Name)
	if err != nil {
		return err
	}
	if data != nil {
		one.seen, one.gone = true, time.Time{}
		return k.keep(name, one, m.Keep(data))
	}
	now := k.now()
	if one.gone.IsZero() {
		one.gone = now
	}
	o := deleted.Object{Kept: len(one.data) > 0, Seen: one.seen, Gone: now.Sub(one.gone), Made: one.made}
	if !o.Again(now) {
		return nil
	}
	one.made = append(deleted.Lately(one.made, now), now)
	if err := api.PutConfigMap(ctx, m.Namespace, m.Name, nil, one.data); err != nil {
		return err
	}
	k.said("ConfigMap " + m.Namespace + "/" + m.Name)
	return nil
}

func (k *keptMaps) path(name string) string { return filepath.Join(k.dir, name+".json") }

// load reads the copy that an earlier agent kept. A file that cannot be read counts as none.
func (k *keptMaps) load(name string) (*keptMap, error) {
	if one := k.maps[name]; one != nil {
		return one, nil
	}
	one := &keptMap{}
	data, err := os.ReadFile(k.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && json.Unmarshal(data, &one.data) != nil {
		one.data = nil
	}
	if k.maps == nil {
		k.maps = map[string]*keptMap{}
	}
	k.maps[name] = one
	return one, nil
}

func (k *keptMaps) keep(name string, one *keptMap, data map[string]string) error {
	if maps.Equal(one.data, data) || len(data) == 0 {
		return nil
	}
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if err := host.WriteFileAtomic(k.path(name), append(text, '\n'), state.SecretFileMode); err != nil {
		return fmt.Errorf("keep a copy of ConfigMap %s: %w", name, err)
	}
	one.data = data
	return nil
}

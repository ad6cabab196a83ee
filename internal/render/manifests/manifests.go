// Package manifests renders the objects that a new cluster has from its first
// minute on: the description of the cluster in the API's own terms, and the
// accounts of the BMCs. It validates nothing: the configuration already follows
// every rule.
//
// The files are for `kubectl apply --server-side`, in this order: Kinds, then
// Objects, then Statuses with --subresource=status. The same configuration
// always gives the same bytes.
package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/render/document"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// The folders of the files, relative to the install directory. Each is applied
// without its subfolders, with its files in the order of their names.
const (
	Objects  = "manifests"
	Kinds    = "manifests/crds"
	Statuses = "manifests/status"
)

// Render returns the manifests of a cluster, ordered by path: the kinds, the
// objects, and the statuses of objects that have a status subresource. Files
// with an account or a proxy's password have mode 0600.
func Render(c *config.InstallConfig, t topology.Topology) ([]state.File, error) {
	files := kinds()
	for _, o := range objects(c, t) {
		rendered, err := o.files()
		if err != nil {
			return nil, fmt.Errorf("render manifest %s: %w", o.file, err)
		}
		files = append(files, rendered...)
	}
	state.SortFiles(files)
	return files, nil
}

// object is one object of the cluster, with the way in which it is written.
type object struct {
	// file is the name of the file; its number defines the order.
	file string
	// of is whom it belongs to; empty is an error.
	of owner
	// value is a typed object of the API.
	value any
	// statusApart is true for kinds with a status subresource: the API ignores a
	// status that is applied together with the rest.
	statusApart bool
	// secret is true if the file contains a password.
	secret bool
	// whole is true for objects in which an empty text has a meaning, for example
	// as the value of a label.
	whole bool
	// wished is true for an object of the site in which people set what they wish; false for
	// one that follows from the site.
	wished bool
}

// objects returns all objects of a cluster, each with whom it belongs to.
func objects(c *config.InstallConfig, t topology.Topology) []object {
	var out []object
	add := func(of owner, list ...object) {
		for _, o := range list {
			o.of = of
			out = append(out, o)
		}
	}
	add(ofRelease, namespaces()...)
	add(ofSite, access(c)...)
	add(ofRelease, hostAccess()...)
	add(ofRelease, apiServerAccess()...)
	add(whileThere, administrators()...)
	add(ofRelease, joiningAccess()...)
	add(ofRelease, agentAccess(c, t)...)
	add(ofSite, fencingSecrets(c)...)
	add(ofSite, clusterConfig(c, t)...)
	add(ofSite, defaultRouter(c, t)) // people change how many routers there are, and where
	add(ofRelease, routers()...)
	add(ofRelease, operatorObjects(operator.Access())...)
	add(ofOperator, operatorObjects(operator.Deployment())...)
	add(ofRelease, operatorObjects(operator.Rules())...)
	if t.EtcdScaling == topology.EtcdTwoNode {
		add(ofSite, etcd()) // the operator writes into it how far the hand-over is
		add(ofRelease, operatorObjects(operator.TwoNodeObjects())...)
		add(ofSite, guardObjects(c)...) // the operator keeps them, and an administrator may lift one
	}
	return out
}

func (o object) files() ([]state.File, error) {
	if o.of == "" {
		return nil, errors.New("nobody says whether it belongs to the release or to the site")
	}
	tree, err := o.tree()
	if err != nil {
		return nil, err
	}
	var out []state.File
	if status, ok := tree["status"]; ok && o.statusApart {
		delete(tree, "status")
		file, err := o.write(Statuses, map[string]any{
			"apiVersion": tree["apiVersion"], "kind": tree["kind"], "metadata": tree["metadata"], "status": status,
		})
		if err != nil {
			return nil, err
		}
		out = append(out, file)
	}
	file, err := o.write(Objects, tree)
	return append(out, file), err
}

func (o object) write(folder string, tree map[string]any) (state.File, error) {
	data, err := document.Marshal(tree)
	file := state.File{Path: path.Join(folder, o.file+".yaml"), Data: data}
	if o.secret {
		file.Mode = state.SecretFileMode
	}
	return file, err
}

// tree returns the object as a map without empty fields. Typed objects contain
// an empty value for every field that is not a pointer, and an applier would
// own all of those.
func (o object) tree() (map[string]any, error) {
	if tree, ok := o.value.(map[string]any); ok && o.whole {
		return tree, nil
	}
	return toTree(o.value)
}

func toTree(value any) (map[string]any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	for key, val := range tree {
		pruned := prune(val)
		if pruned == nil && key == "spec" {
			pruned = map[string]any{} // required, even if empty
		}
		if pruned == nil {
			delete(tree, key)
			continue
		}
		tree[key] = pruned
	}
	return tree, nil
}

// prune removes null, empty text, empty lists and empty mappings; it returns
// nil if nothing remains. False and zero stay.
func prune(val any) any {
	switch v := val.(type) {
	case map[string]any:
		for key, inner := range v {
			if pruned := prune(inner); pruned == nil {
				delete(v, key)
			} else {
				v[key] = pruned
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		if len(v) == 0 {
			return nil
		}
		for _, inner := range v {
			prune(inner) // entries stay, even if they become empty
		}
	case string:
		if v == "" {
			return nil
		}
	}
	return val
}

package installer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/ignition"
	"github.com/holdfast/holdfast/internal/render/flannel"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/site"
	"github.com/holdfast/holdfast/internal/state"
)

// manifestDirs are the folders of manifests in the install directory: objects
// of the cluster, and the pod network.
var manifestDirs = []string{"manifests", "network"}

// Manifests writes the manifests, which a person may then change before the
// Ignition files are made of them. It returns the paths that it wrote.
func (in *Installer) Manifests() ([]string, error) {
	s, err := in.Load()
	if err != nil {
		return nil, err
	}
	files, err := render(s)
	if err != nil {
		return nil, err
	}
	return host.WriteFiles(in.Dir, files)
}

func render(s *site.Site) ([]state.File, error) {
	files, err := manifests.Render(s.Config, s.Topology())
	if err != nil {
		return nil, err
	}
	if s.Config.Networking.NetworkType != "None" {
		network, err := flannel.Manifests(s)
		if err != nil {
			return nil, err
		}
		files = append(files, network)
	}
	state.SortFiles(files)
	return files, nil
}

// IgnitionConfigs writes bootstrap.ign for the host that starts the cluster,
// pointers master.ign and worker.ign for the others, auth/kubeconfig and
// metadata.json. Manifests in the directory are used as they stand there.
func (in *Installer) IgnitionConfigs() ([]string, error) {
	s, err := in.Load()
	if err != nil {
		return nil, err
	}
	first, err := in.bootstrap(s)
	if err != nil {
		return nil, err
	}
	files := []state.File{{Path: "bootstrap.ign", Data: first, Mode: state.SecretFileMode}}
	if s.Config.ControlPlaneReplicas() > 1 {
		if files, err = appendPointer(files, s, state.RoleMaster); err != nil {
			return nil, err
		}
	}
	if files, err = appendPointer(files, s, state.RoleWorker); err != nil {
		return nil, err
	}
	return in.finish(s, files)
}

// SingleNodeIgnitionConfig writes the Ignition of a single control plane that
// is installed in place, and the pointer with which workers join it later.
func (in *Installer) SingleNodeIgnitionConfig() ([]string, error) {
	s, err := in.Load()
	if err != nil {
		return nil, err
	}
	if n := s.Config.ControlPlaneReplicas(); n != 1 {
		return nil, &InputError{fmt.Errorf("controlPlane.replicas: Invalid value: %d: "+
			"a single-node Ignition needs exactly 1; use 'holdfast create ignition-configs'", n)}
	}
	first, err := in.bootstrap(s)
	if err != nil {
		return nil, err
	}
	files, err := appendPointer([]state.File{
		{Path: "bootstrap-in-place-for-live-iso.ign", Data: first, Mode: state.SecretFileMode},
	}, s, state.RoleWorker)
	if err != nil {
		return nil, err
	}
	return in.finish(s, files)
}

func (in *Installer) bootstrap(s *site.Site) ([]byte, error) {
	objects, err := in.manifestsOnDisk()
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		if objects, err = render(s); err != nil {
			return nil, err
		}
	}
	return RoleIgnition(s, state.RoleBootstrap, objects, ignition.Newest)
}

// RoleIgnition renders the whole Ignition of a role in a spec version. Objects
// are the cluster's manifests, for the first host only.
func RoleIgnition(s *site.Site, role state.Role, objects []state.File, version string) ([]byte, error) {
	c, err := renderhost.Config(s, role, objects)
	if err != nil {
		return nil, err
	}
	return ignition.Marshal(c, version)
}

// manifestsOnDisk reads what Manifests wrote and a person may have changed.
func (in *Installer) manifestsOnDisk() ([]state.File, error) {
	var files []state.File
	for _, dir := range manifestDirs {
		err := filepath.WalkDir(filepath.Join(in.Dir, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !isManifest(path) {
				return ignoreMissing(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(in.Dir, path)
			files = append(files, state.File{Path: rel, Data: data, Mode: info.Mode().Perm()})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	state.SortFiles(files)
	return files, nil
}

func isManifest(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) &&
		!strings.HasPrefix(filepath.Base(path), ".")
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func appendPointer(files []state.File, s *site.Site, role state.Role) ([]state.File, error) {
	data, err := Pointer(s, role)
	if err != nil {
		return nil, err
	}
	return append(files, state.File{Path: string(role) + ".ign", Data: data, Mode: state.SecretFileMode}), nil
}

// Pointer renders the Ignition that a host of a role boots with: where its
// configuration is, whom to trust, and the secret that opens it.
func Pointer(s *site.Site, role state.Role) ([]byte, error) {
	token, err := s.JoinToken(role)
	if err != nil {
		return nil, err
	}
	return ignition.Pointer(s.ConfigServerURL()+"/config/"+string(role), s.Identity.ConfigCA.Cert, token)
}

// finish writes the files with those that every target brings along.
func (in *Installer) finish(s *site.Site, files []state.File) ([]string, error) {
	kubeconfig, err := AdminKubeconfig(s, "https://"+s.ExternalAPIName()+":6443")
	if err != nil {
		return nil, err
	}
	meta, err := json.MarshalIndent(map[string]string{
		"clusterName": s.Config.Metadata.Name, "clusterID": s.Identity.ClusterID,
		"infraID": manifests.InfrastructureName(s.Config), "domain": s.Domain(),
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	files = append(files,
		state.File{Path: Kubeconfig, Data: kubeconfig, Mode: state.SecretFileMode},
		state.File{Path: MetadataFile, Data: append(meta, '\n')},
	)
	return host.WriteFiles(in.Dir, files)
}

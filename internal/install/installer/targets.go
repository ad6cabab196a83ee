package installer

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// IgnitionConfigs writes bootstrap.ign for the host that starts the cluster,
// the pointers master.ign and worker.ign for the others, auth/kubeconfig and
// metadata.json. It uses the manifests in the directory as the administrator
// left them.
func (in *Installer) IgnitionConfigs() ([]string, error) {
	release, err := in.lock()
	if err != nil {
		return nil, err
	}
	defer release()
	s, st, set, err := in.open()
	if err != nil {
		return nil, err
	}
	return in.write(s, st, set)
}

// write renders and writes the files.
func (in *Installer) write(s *site.Site, st *saved, set manifestSet) ([]string, error) {
	objects, err := in.manifests(st, set)
	if err != nil {
		return nil, err
	}
	if err := in.renewJoinSecret(s, st); err != nil {
		return nil, err
	}
	if err := in.renewAdministrator(s, st); err != nil {
		return nil, err
	}
	files, err := Files(s, objects)
	if err != nil {
		return nil, err
	}
	return host.WriteFiles(in.Dir, files)
}

// Files renders everything from which a site is installed: the first host's
// Ignition config, which contains the objects, pointers for the other hosts,
// the administrator's kubeconfig and a description.
func Files(s *site.Site, objects []state.File) ([]state.File, error) {
	c, err := renderhost.Config(s, state.RoleBootstrap, objects)
	if err != nil {
		return nil, err
	}
	data, err := ignition.Marshal(c, ignition.Newest)
	if err != nil {
		return nil, err
	}
	files := []state.File{{Path: "bootstrap.ign", Data: data, Mode: state.SecretFileMode}}
	roles := []state.Role{state.RoleMaster, state.RoleWorker}
	if s.Config.ControlPlaneReplicas() == 1 {
		roles = roles[1:]
	}
	for _, role := range roles {
		if data, err = Pointer(s, role, ""); err != nil {
			return nil, err
		}
		files = append(files, state.File{Path: string(role) + ".ign", Data: data, Mode: state.SecretFileMode})
	}
	return appendAccess(files, s)
}

// First is what a joining host gets from the configuration of its pool.
type First struct {
	// Files are added to those that every host of the role has, or take their place.
	Files []state.File
	// Keys, if there are any, take the place of those that the site was installed with: a key
	// that was taken back since comes to no new host.
	Keys []string
}

// JoinIgnition renders the whole Ignition config of a joining host in a spec version.
func JoinIgnition(s *site.Site, role state.Role, first First, version string) ([]byte, error) {
	c, err := renderhost.Config(s, role, nil)
	if err != nil {
		return nil, err
	}
	c.Files = slices.DeleteFunc(c.Files, func(f state.File) bool {
		return slices.ContainsFunc(first.Files, func(own state.File) bool { return own.Path == f.Path })
	})
	c.Files = append(c.Files, first.Files...)
	for i := range c.Users {
		if c.Users[i].Name == renderhost.User && len(first.Keys) > 0 {
			c.Users[i].SSHAuthorizedKeys = first.Keys
		}
	}
	return ignition.Marshal(c, version)
}

// Pointer renders the Ignition config with which a host of a role boots. If no
// host is named, every host of the role may use it. It contains the place of the
// host's configuration, the authority to trust, and the secret that opens the
// configuration.
func Pointer(s *site.Site, role state.Role, host string) ([]byte, error) {
	token, err := s.JoinToken(role, host)
	if err != nil {
		return nil, err
	}
	return ignition.Pointer(s.ConfigServerURL()+"/config/"+string(role), s.Identity.ConfigCA.Cert, token)
}

// Bounds of the life of a join secret of JoinConfig.
const (
	MinJoinLife = time.Minute
	MaxJoinLife = 7 * 24 * time.Hour
)

// JoinConfig writes join-<role>.ign, a pointer for hosts that join an existing
// cluster. Its secret is valid from now on for the given life. If a host is
// named, the file is join-<host>.ign and only for that host. It returns the
// path, and the end of the secret.
func (in *Installer) JoinConfig(role state.Role, hostName string, life time.Duration) (string, time.Time, error) {
	if life < MinJoinLife || life > MaxJoinLife {
		return "", time.Time{}, &InputError{fmt.Errorf("life %s of a join secret: must be %s to %s", life, MinJoinLife, MaxJoinLife)}
	}
	s, err := in.Made()
	if err != nil {
		return "", time.Time{}, err
	}
	name, err := string(role), joining.Of(s.Config).Role(role)
	if hostName != "" {
		name, err = hostName, joining.Of(s.Config).Name(role, hostName, nil)
	}
	if err != nil {
		return "", time.Time{}, &InputError{err}
	}
	s.Identity.JoinUntil = in.Now().Add(life).UTC().Truncate(time.Second)
	data, err := Pointer(s, role, hostName)
	if err != nil {
		return "", time.Time{}, err
	}
	path := filepath.Join(in.Dir, "join-"+name+".ign")
	return path, s.Identity.JoinUntil, host.WriteFileAtomic(path, data, state.SecretFileMode)
}

// appendAccess adds the files for the administrator: the kubeconfig, and the
// names of the cluster.
func appendAccess(files []state.File, s *site.Site) ([]state.File, error) {
	kubeconfig, err := kubeconfigFile(s)
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
	return append(files, kubeconfig, state.File{Path: MetadataFile, Data: append(meta, '\n')}), nil
}

package machineconfig

import (
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/model/config"
)

// Said returns what a site has today of an install configuration: what it was installed
// from, and in the place of the fields that objects of their own have, what these say. The
// file is the one that is compared with it; see keys.
func (o Objects) Said(installed, file *config.InstallConfig) (*config.InstallConfig, error) {
	out := *installed
	var err error
	if out.SSHKey, err = o.keys(installed.SSHKey, file.SSHKey); err != nil {
		return nil, err
	}
	if o.Proxy != nil {
		out.Proxy, out.AdditionalTrustBundle = o.Proxy.Said()
	}
	return &out, nil
}

// keys returns what a site has as sshKey. Two objects have the keys of two roles, and a file
// has one field for both: its text is returned if both roles have its keys, in whatever order,
// else the keys of the first role that has others. A role without an object has those of the
// installation.
func (o Objects) keys(installed, file string) (string, error) {
	sorted := func(text string) []string {
		return slices.Sorted(slices.Values((&config.InstallConfig{SSHKey: text}).AuthorizedKeys()))
	}
	for _, role := range keyRoles {
		name, has := keysName(role), installed
		if i := slices.IndexFunc(o.MachineConfigs, func(mc mcfgv1.MachineConfig) bool { return mc.Name == name }); i >= 0 {
			c, err := Read(o.MachineConfigs[i])
			if err != nil {
				return "", fmt.Errorf("read the keys of MachineConfig %s: %w", name, err)
			}
			has = strings.Join(c.Keys(), "\n")
		}
		if !slices.Equal(sorted(has), sorted(file)) {
			return has, nil
		}
	}
	return file, nil
}

// Keys returns the keys of User.
func (c Config) Keys() []string {
	var out []string
	for _, u := range c.Ignition.Passwd.Users {
		if u.Name != User {
			continue
		}
		for _, key := range u.SSHAuthorizedKeys {
			out = append(out, string(key))
		}
	}
	return out
}

package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/config"
)

// configInput names where wishes about configurations stand.
type configInput struct {
	// files are files and folders; - is the standard input.
	files []string
	// installConfig is the path of an install-config; empty for none.
	installConfig string
}

func (in configInput) given() bool { return len(in.files) > 0 || in.installConfig != "" }

// configWish is what files ask of the hosts of a cluster.
type configWish struct {
	wanted machineconfig.Wanted
	// install is the install-config among them, or nil.
	install *config.InstallConfig
}

// read reads all files. The error names the mistakes of all of them.
func (in configInput) read(stdin io.Reader) (configWish, error) {
	var out configWish
	var mistakes []error
	for _, file := range in.files {
		paths, err := inFolder(file)
		if err != nil {
			mistakes = append(mistakes, err)
		}
		for _, path := range paths {
			data, err := readFile(stdin, path)
			if err != nil {
				mistakes = append(mistakes, err)
				continue
			}
			wanted, err := parseWanted(data)
			if err != nil {
				mistakes = append(mistakes, fmt.Errorf("%s: %w", path, err))
			}
			out.wanted = out.wanted.Add(wanted)
		}
	}
	if in.installConfig != "" {
		mistakes = append(mistakes, out.readInstall(stdin, in.installConfig))
	}
	return out, errors.Join(mistakes...)
}

// readInstall adds what an install-config says about hosts.
func (w *configWish) readInstall(stdin io.Reader, file string) error {
	data, err := readFile(stdin, file)
	if err != nil {
		return err
	}
	if w.install, err = config.Parse(data); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	keys, err := machineconfig.OfKeys(w.install.AuthorizedKeys())
	w.wanted.MachineConfigs = append(w.wanted.MachineConfigs, keys...)
	return err
}

// inFolder returns the files of a folder, without those of folders below it. A file
// is itself.
func inFolder(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			out = append(out, filepath.Join(path, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: there is no file *.yaml, *.yml or *.json in it", path)
	}
	return out, nil
}

func readFile(in io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(file)
}

// parseWanted reads the documents of a file. A field that the kind does not have is
// a mistake.
func parseWanted(data []byte) (machineconfig.Wanted, error) {
	var out machineconfig.Wanted
	var mistakes []error
	found := 0
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out, err
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		found++
		if err := addWanted(&out, text); err != nil {
			mistakes = append(mistakes, fmt.Errorf("document %d: %w", found, err))
		}
	}
	if found == 0 {
		mistakes = append(mistakes, errors.New("there is no MachineConfig in it"))
	}
	return out, errors.Join(mistakes...)
}

// addWanted adds one document.
func addWanted(out *machineconfig.Wanted, text []byte) error {
	var head metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(text, &head); err != nil {
		return err
	}
	into := map[schema.GroupVersionKind]any{
		mcfgv1.GroupVersion.WithKind("MachineConfig"): &mcfgv1.MachineConfig{}, mcfgv1.GroupVersion.WithKind("KubeletConfig"): &mcfgv1.KubeletConfig{},
		mcfgv1.GroupVersion.WithKind("ContainerRuntimeConfig"):        &mcfgv1.ContainerRuntimeConfig{},
		configv1.GroupVersion.WithKind(machineconfig.DigestMirrorSet): &configv1.ImageDigestMirrorSet{},
		configv1.GroupVersion.WithKind(machineconfig.TagMirrorSet):    &configv1.ImageTagMirrorSet{},
	}[head.GroupVersionKind()]
	if into == nil || head.Name == "" {
		return fmt.Errorf("kind %q, apiVersion %q, name %q: must be a MachineConfig, KubeletConfig or ContainerRuntimeConfig of %s, or an %s or %s of %s, with a name; other kinds are for kubectl apply",
			head.Kind, head.APIVersion, head.Name, mcfgv1.GroupVersion, machineconfig.DigestMirrorSet, machineconfig.TagMirrorSet, configv1.GroupVersion)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return fmt.Errorf("%s %s: %w", head.Kind, head.Name, err)
	}
	switch o := into.(type) {
	case *mcfgv1.MachineConfig:
		out.MachineConfigs = append(out.MachineConfigs, *o)
	case *mcfgv1.KubeletConfig:
		out.KubeletConfigs = append(out.KubeletConfigs, *o)
	case *mcfgv1.ContainerRuntimeConfig:
		out.ContainerRuntimeConfigs = append(out.ContainerRuntimeConfigs, *o)
	case *configv1.ImageDigestMirrorSet:
		out.DigestMirrors = append(out.DigestMirrors, *o)
	case *configv1.ImageTagMirrorSet:
		out.TagMirrors = append(out.TagMirrors, *o)
	}
	return nil
}

// compareInstall returns what a cluster has otherwise than the install-config of a
// wish, and what a person should know of that. It refuses the file of another cluster.
func (w configWish) compareInstall(ctx context.Context, c client.Reader, has machineconfig.Objects) (found []config.Difference, notes []string, err error) {
	if w.install == nil {
		return nil, nil, nil
	}
	installed, err := installedFrom(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if installed.ClusterDomain() != w.install.ClusterDomain() {
		return nil, nil, coded(command.ExitRefused, "refused: the install-config is that of %s, and this cluster is %s; choose the file or the cluster anew",
			w.install.ClusterDomain(), installed.ClusterDomain())
	}
	now, err := has.Said(installed, w.install)
	if err != nil {
		return nil, nil, err
	}
	found, err = config.Compare(now, w.install)
	notes = aboutKeys(installed, w.install)
	if now.Proxy != nil && w.install.Proxy == nil {
		notes = append(notes, "the file has no proxy: that of the cluster stays; who empties spec of Proxy cluster takes it away")
	}
	if now.AdditionalTrustBundle != "" && w.install.AdditionalTrustBundle == "" {
		notes = append(notes, "the file has no additionalTrustBundle: that of the cluster stays; who empties spec.trustedCA of Proxy cluster takes it away")
	}
	return found, notes, err
}

// installedFrom returns what a cluster was installed from.
func installedFrom(ctx context.Context, c client.Reader) (*config.InstallConfig, error) {
	const where = "ConfigMap kube-system/cluster-config-v1"
	var kept corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "cluster-config-v1"}, &kept); err != nil {
		return nil, fmt.Errorf("read what this cluster was installed from: %w", err)
	}
	out, err := config.Made([]byte(kept.Data["install-config"]))
	if err != nil {
		return nil, fmt.Errorf("%s, which says what this cluster was installed from: %w", where, err)
	}
	return out, nil
}

// aboutKeys returns what a person should know of the keys of a living cluster.
func aboutKeys(installed, file *config.InstallConfig) []string {
	had, has := installed.AuthorizedKeys(), file.AuthorizedKeys()
	var out []string
	if len(had) == 0 && len(has) > 0 {
		out = append(out, "this cluster was installed without sshKey: a host that has no account "+machineconfig.User+" refuses its keys")
	}
	gone := 0
	for _, key := range had {
		if !slices.Contains(has, key) {
			gone++
		}
	}
	if gone > 0 {
		out = append(out, fmt.Sprintf("keys of the installation that the file does not have: %d. Hosts keep them; remove them from ~%s/.ssh/authorized_keys on each host",
			gone, machineconfig.User))
	}
	if len(has) == 0 {
		out = append(out, "the file has no sshKey: MachineConfigs 99-master-ssh and 99-worker-ssh of an earlier one stay; kubectl delete machineconfig takes them away")
	}
	return out
}

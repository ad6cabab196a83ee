// Command gen copies the definitions of the kinds that Holdfast uses from the
// API's module and from the Gateway API's: `gen API GATEWAY DESTINATION`. If
// the API's module has a variant for each feature set, it takes the one with
// all features, because two control planes need CustomNoUpgrade and one
// definition serves all sites.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// plurals lists the rendered kinds, by the part of the API's module from which
// they come.
var plurals = map[string][]string{
	"config-operator": {"backups", "dnses", "featuregates", "imagedigestmirrorsets", "imagetagmirrorsets", "infrastructures", "ingresses", "networks", "proxies", "schedulers"},
	"etcd":            {"etcds", "pacemakerclusters"},
	"ingress":         {"ingresscontrollers"},
	"machine-config":  {"containerruntimeconfigs", "kubeletconfigs", "machineconfigs", "machineconfigpools", "machineconfigurations"},
	// What a cluster runs, and the kind in which operators report their state.
	"cluster-version-operator": {"clusteroperators", "clusterversions"},
}

// folders lists the module's folders of definitions; the first one that
// contains a kind counts.
var folders = []string{"payload-manifests/crds", "etcd/v1/zz_generated.crd-manifests", "config/v1/zz_generated.crd-manifests", "operator/v1/zz_generated.crd-manifests"}

// gatewayPlurals lists the kinds of the Gateway API that routers follow. With
// another kind here, users would believe that something follows it.
var gatewayPlurals = []string{"backendtlspolicies", "gatewayclasses", "gateways", "grpcroutes", "httproutes", "referencegrants", "tlsroutes"}

// gatewayPrefix begins the file names of the Gateway API's kinds.
const gatewayPrefix = "gateway.networking.k8s.io_"

// variants lists the endings of a definition's name, in order of preference.
var variants = []string{"-SelfManagedHA-CustomNoUpgrade", "-CustomNoUpgrade", "-SelfManagedHA", ""}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: gen API GATEWAY DESTINATION")
		os.Exit(2) //nolint:forbidigo // this is main
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(module, gateways, destination string) error {
	old, err := filepath.Glob(filepath.Join(destination, "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	for part, kinds := range plurals {
		for _, plural := range kinds {
			if err := copyKind(module, destination, part, plural); err != nil {
				return err
			}
		}
	}
	return copyGateways(filepath.Join(gateways, "config/crd/standard"), destination)
}

func copyKind(module, destination, part, plural string) error {
	for _, folder := range folders {
		for _, variant := range variants {
			found, err := filepath.Glob(filepath.Join(module, folder, "*_"+part+"_0[01]_"+plural+variant+".crd.yaml"))
			if err != nil {
				return err
			}
			if len(found) != 1 {
				continue
			}
			data, err := os.ReadFile(found[0])
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(destination, plural+".yaml"), data, 0o644)
		}
	}
	return fmt.Errorf("the module has no single definition of %s", plural)
}

// copyGateways copies the kinds of the standard channel without their
// descriptions. Those are three quarters of the bytes that every site would
// carry, and nobody edits these kinds here.
func copyGateways(source, destination string) error {
	for _, plural := range gatewayPlurals {
		if err := copyWordless(filepath.Join(source, gatewayPrefix+plural+".yaml"), filepath.Join(destination, "gateway-"+plural+".yaml")); err != nil {
			return err
		}
	}
	return nil
}

func copyWordless(source, destination string) error {
	data, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	var definition map[string]any
	if err := yaml.Unmarshal(data, &definition); err != nil {
		return fmt.Errorf("read %s: %w", source, err)
	}
	delete(definition, "status")
	if data, err = yaml.Marshal(wordless(definition)); err != nil {
		return err
	}
	return os.WriteFile(destination, data, 0o644)
}

// wordless removes descriptions, but keeps properties with that name, whose
// value is no text.
func wordless(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if _, text := inner.(string); text && key == "description" {
				delete(v, key)
				continue
			}
			v[key] = wordless(inner)
		}
	case []any:
		for i := range v {
			v[i] = wordless(v[i])
		}
	}
	return value
}

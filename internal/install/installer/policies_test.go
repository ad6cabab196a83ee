package installer_test

import (
	"bytes"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// TestNoPolicyHasAParameterOfABuiltInKind: an API server waits for all objects of
// a kind that its own library knows before it reports ready. It waits even if it
// may not read them, as an additional API server may not. It does not wait for
// kinds of our own. The same installation defines each of these.
func TestNoPolicyHasAParameterOfABuiltInKind(t *testing.T) {
	builtIn := informers.NewSharedInformerFactory(nil, 0)
	for name, text := range map[string]string{"two": sitetest.TwoDual, "one": sitetest.OneNone, "three": sitetest.ThreeV6} {
		files, err := installer.Objects(sitetest.New(t, text))
		if err != nil {
			t.Fatal(err)
		}
		defined := map[schema.GroupVersionKind]schema.GroupVersionResource{}
		policies, asked := 0, map[string]schema.GroupVersionKind{}
		for _, f := range files {
			for document := range bytes.SplitSeq(f.Data, []byte("\n---\n")) {
				var crd apiextensionsv1.CustomResourceDefinition
				var policy admissionv1.ValidatingAdmissionPolicy // a mutating policy has its parameter in the same place
				if err := yaml.Unmarshal(document, &crd.TypeMeta); err != nil {
					t.Fatalf("%s: %v", f.Path, err)
				}
				switch crd.Kind {
				case "CustomResourceDefinition":
					if err := yaml.Unmarshal(document, &crd); err != nil {
						t.Fatalf("%s: %v", f.Path, err)
					}
					for _, v := range crd.Spec.Versions {
						gv := schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}
						defined[gv.WithKind(crd.Spec.Names.Kind)] = gv.WithResource(crd.Spec.Names.Plural)
					}
				case "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy":
					if err := yaml.Unmarshal(document, &policy); err != nil {
						t.Fatalf("%s: %v", f.Path, err)
					}
					policies++
					if k := policy.Spec.ParamKind; k != nil {
						asked[policy.Name] = schema.FromAPIVersionAndKind(k.APIVersion, k.Kind)
					}
				}
			}
		}
		if policies < 4 || len(asked) == 0 {
			t.Errorf("%s: %d policies, %d of them with a parameter: they were not found", name, policies, len(asked))
		}
		for policy, kind := range asked {
			resource, own := defined[kind]
			if !own {
				t.Errorf("%s: policy %s has a parameter of kind %s, which the installation does not define", name, policy, kind)
			}
			if _, err := builtIn.ForResource(resource); own && err == nil {
				t.Errorf("%s: policy %s has a parameter of kind %s, which every API server knows", name, policy, kind)
			}
		}
	}
}

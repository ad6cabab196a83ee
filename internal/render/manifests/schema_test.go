package manifests

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/render/router"
)

// kindSchema checks objects like the API server.
type kindSchema struct {
	name       string
	structural *structuralschema.Structural
	schema     validation.SchemaCreateValidator
	rules      *schemacel.Validator
	hasStatus  bool
}

// kindSchemas returns the embedded definitions by "apiVersion/kind".
func kindSchemas(t *testing.T) map[string]*kindSchema {
	t.Helper()
	out := map[string]*kindSchema{}
	for _, file := range kinds() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(file.Data, crd); err != nil {
			t.Fatalf("%s: %v", file.Path, err)
		}
		version := crd.Spec.Versions[0]
		schema := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, schema, nil); err != nil {
			t.Fatal(err)
		}
		structural, err := structuralschema.NewStructural(schema)
		if err != nil {
			t.Fatalf("%s: %v", file.Path, err)
		}
		validator, _, err := validation.NewSchemaValidator(schema)
		if err != nil {
			t.Fatalf("%s: %v", file.Path, err)
		}
		out[crd.Spec.Group+"/"+version.Name+"/"+crd.Spec.Names.Kind] = &kindSchema{
			name: crd.Name, structural: structural, schema: validator,
			rules:     schemacel.NewValidator(structural, true, celconfig.PerCallLimit),
			hasStatus: version.Subresources != nil && version.Subresources.Status != nil,
		}
	}
	return out
}

// check returns the errors of the API server for an object that replaces old,
// which is nil for a new one.
func (k *kindSchema) check(t *testing.T, object, old map[string]any) []error {
	t.Helper()
	pruned := runtime.DeepCopyJSON(object)
	unknown := structuralpruning.PruneWithOptions(pruned, k.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	var errs []error
	for _, path := range unknown {
		errs = append(errs, fmt.Errorf("unknown field %s", path))
	}
	defaulted := runtime.DeepCopyJSON(object)
	defaulting.Default(defaulted, k.structural)
	list := validation.ValidateCustomResource(nil, defaulted, k.schema)
	list = append(list, listtype.ValidateListSetsAndMaps(nil, k.structural, defaulted)...)
	if k.rules != nil {
		var before any
		if old != nil {
			before = old
		}
		ruled, _ := k.rules.Validate(t.Context(), field.NewPath("object"), k.structural, defaulted, before, celconfig.RuntimeCELCostBudget)
		list = append(list, ruled...)
	}
	for _, err := range list {
		errs = append(errs, err)
	}
	return errs
}

func TestTheSchemaCheckNoticesWhatTheAPIWouldRefuse(t *testing.T) {
	infra := kindSchemas(t)["config.openshift.io/v1/Infrastructure"]
	tests := []struct{ name, object, want string }{
		{
			"an infrastructure topology without a place in the schema",
			`{spec: {}, status: {infrastructureTopology: DualReplica}}`,
			`status.infrastructureTopology: Unsupported value: "DualReplica": supported values: "HighlyAvailable", "SingleReplica"`,
		},
		{
			"an unknown field",
			`{spec: {platform: None}}`,
			`unknown field spec.platform`,
		},
		{
			"a rule in CEL",
			`{spec: {platformSpec: {type: BareMetal, baremetal: {apiServerInternalIPs: [10.0.0.5, 10.0.0.6]}}}}`,
			`object.spec.platformSpec.baremetal.apiServerInternalIPs: Invalid value: apiServerInternalIPs must contain at most one IPv4 address and at most one IPv6 address`,
		},
	}
	for _, tt := range tests {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(tt.object), &object); err != nil {
			t.Fatal(err)
		}
		object["apiVersion"], object["kind"] = "config.openshift.io/v1", "Infrastructure"
		object["metadata"] = map[string]any{"name": "cluster"}
		var got []string
		for _, err := range infra.check(t, object, nil) {
			got = append(got, err.Error())
		}
		if !slices.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q among them", tt.name, got, tt.want)
		}
	}
}

// Routers follow no Gateway at all if a kind is missing for which they wait.
func TestEveryKindThatRoutersWaitForIsDefined(t *testing.T) {
	for _, kind := range router.GatewayKinds() {
		served := false
		for _, name := range kindFiles() {
			data, err := definitions.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			definition := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal(data, definition); err != nil {
				t.Fatal(err)
			}
			served = served || definition.Spec.Group == kind.Group && definition.Spec.Names.Kind == kind.Kind &&
				slices.ContainsFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
					return v.Name == kind.Version && v.Served
				})
		}
		if !served {
			t.Errorf("%s is defined nowhere", kind)
		}
	}
}

// TestTheListOfHostsIsOfTheKindThatIsDefined: the names match, and no field is
// dropped.
func TestTheListOfHostsIsOfTheKindThatIsDefined(t *testing.T) {
	apiVersion, kind := router.HostsKind.ToAPIVersionAndKind()
	defined := kindSchemas(t)[apiVersion+"/"+kind]
	if defined == nil || defined.name != router.HostsResource+"."+router.HostsKind.Group {
		t.Fatalf("%+v", defined)
	}
	list := router.RouteHosts{Data: map[string]string{"_class": "openshift-x", "_.example.com": "bank *\nshop /x"}}
	list.Name = "router-hosts-x"
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&list)
	if err != nil {
		t.Fatal(err)
	}
	tree["apiVersion"], tree["kind"] = apiVersion, kind
	if errs := defined.check(t, tree, nil); len(errs) > 0 {
		t.Errorf("%v", errs)
	}
}

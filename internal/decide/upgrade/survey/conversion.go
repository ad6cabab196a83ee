package survey

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Conversion returns the webhook that converts objects of a kind. A kind of which one
// version is served has none to ask: nothing is converted.
func Conversion(definition *unstructured.Unstructured) (Webhook, bool) {
	how, _, _ := unstructured.NestedString(definition.Object, "spec", "conversion", "strategy")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	served := 0
	for _, v := range versions {
		if fields, is := v.(map[string]any); is && fields["served"] == true {
			served++
		}
	}
	if how != "Webhook" || served < 2 {
		return Webhook{}, false
	}
	w := Webhook{Name: "the conversion of " + definition.GetName(), Converts: true}
	service := func(field string) string {
		text, _, _ := unstructured.NestedString(definition.Object, "spec", "conversion", "webhook", "clientConfig", "service", field)
		return text
	}
	if name := service("name"); name != "" {
		w.Client.Service = &admissionv1.ServiceReference{Namespace: service("namespace"), Name: name}
	}
	return w, true
}

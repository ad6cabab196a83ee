package contents

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/holdfast/holdfast/internal/decide/backup/objects"
)

// protobufMagic begins a value of a kind that Kubernetes itself has.
var protobufMagic = []byte("k8s\x00")

// Found are the objects of a snapshot.
type Found struct {
	Objects []objects.Object
	// Unread are keys whose values could not be read.
	Unread []objects.Unread
	// Internal counts keys that API servers write for themselves, and Foreign those of others.
	Internal, Foreign int
}

// Read reads all objects that fit.
func (s *Snapshot) Read(ctx context.Context, keys Keys, fits func(objects.Object) bool) (Found, error) {
	var out Found
	err := s.Each(ctx, "", func(v Value) error {
		place, ok := objects.PlaceOf(v.Key)
		switch {
		case !ok:
			out.Foreign++
			return nil
		case place.Internal:
			out.Internal++
			return nil
		}
		o, err := decode(place, v, keys)
		if err != nil {
			out.Unread = append(out.Unread, objects.Unread{Key: v.Key, Why: err.Error()})
			return nil //nolint:nilerr // it is told
		}
		if fits == nil || fits(o) {
			out.Objects = append(out.Objects, o)
		}
		return nil
	})
	return out, err
}

// definitionsPrefix begins the keys of definitions of custom resources.
const definitionsPrefix = objects.Root + "apiextensions.k8s.io/customresourcedefinitions/"

// Names reads the further names of custom resources.
func (s *Snapshot) Names(ctx context.Context) (objects.Names, error) {
	var definitions []objects.Object
	err := s.Each(ctx, definitionsPrefix, func(v Value) error {
		place, ok := objects.PlaceOf(v.Key)
		if o, err := decode(place, v, Keys{}); ok && err == nil {
			definitions = append(definitions, o) // Read tells of one that cannot be read
		}
		return nil
	})
	return objects.NamesOf(definitions), err
}

// decode decodes the value of a key.
func decode(place objects.Place, v Value, keys Keys) (objects.Object, error) {
	data, secret := v.Data, bytes.HasPrefix(v.Data, []byte(encrypted))
	if secret {
		var err error
		if data, err = keys.open(v.Data); err != nil {
			return objects.Object{}, err
		}
	}
	content, partial, err := contentOf(data)
	if err != nil {
		return objects.Object{}, err
	}
	if place.Group == apiextensions.GroupName {
		if content, err = definitionOf(data); err != nil {
			return objects.Object{}, err
		}
	}
	o := objects.New(place, content).At(v.Revision)
	o.Size, o.Encrypted, o.Partial = int64(len(v.Data)), secret, partial
	return o, nil
}

// contentOf decodes an object. partial is true if the value has more than is in the content.
func contentOf(data []byte) (content map[string]any, partial bool, err error) {
	switch {
	case bytes.HasPrefix(data, protobufMagic):
		return fromProtobuf(data)
	case bytes.HasPrefix(data, []byte("{")):
		if err := json.Unmarshal(data, &content); err != nil {
			return nil, false, errors.New("it is no JSON") // the error would quote the value
		}
		return content, false, nil
	}
	return nil, false, errors.New("it is neither protobuf nor JSON of Kubernetes")
}

var (
	decoder = scheme.Codecs.UniversalDeserializer()
	encoder = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
)

func fromProtobuf(data []byte) (content map[string]any, partial bool, err error) {
	object, kind, err := decoder.Decode(data, nil, nil)
	if runtime.IsNotRegisteredError(err) && kind != nil {
		return nil, false, fmt.Errorf("this build does not know the kind %s of %s", kind.Kind, kind.GroupVersion())
	}
	if err != nil {
		return nil, false, errors.New("it is no protobuf of Kubernetes")
	}
	// Fields that this build does not know are lost while it decodes: encoded again, the object is
	// then shorter.
	again, err := runtime.Encode(encoder, object)
	if err != nil {
		return nil, false, errors.New("it cannot be encoded again")
	}
	if content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(object); err != nil {
		return nil, false, fmt.Errorf("it cannot be shown: %T", object)
	}
	content["apiVersion"], content["kind"] = kind.GroupVersion().String(), kind.Kind
	return content, len(again) < len(data), nil
}

// definitions has the versions of definitions of custom resources. API servers store them in one
// that no API serves any more.
var definitions = func() *runtime.Scheme {
	s := runtime.NewScheme()
	install.Install(s)
	return s
}()

// definitionOf decodes the definition of a custom resource into the version that the API serves.
func definitionOf(data []byte) (map[string]any, error) {
	served := apiextensionsv1.SchemeGroupVersion
	object, _, err := serializer.NewCodecFactory(definitions).UniversalDecoder(apiextensions.SchemeGroupVersion).Decode(data, nil, nil)
	if err == nil {
		object, err = definitions.ConvertToVersion(object, served)
	}
	if err != nil {
		return nil, errors.New("it is no definition of a custom resource that this build knows")
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("it cannot be shown: %T", object)
	}
	content["apiVersion"], content["kind"] = served.String(), "CustomResourceDefinition"
	return content, nil
}

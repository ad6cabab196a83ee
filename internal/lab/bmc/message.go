package bmc

import (
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
)

// object is a JSON object.
type object map[string]any

// reply is an answer before it is written. A nil body sends none.
type reply struct {
	status int
	header map[string]string
	body   any
}

func found(body object) reply { return reply{status: http.StatusOK, body: body} }

// registry is the message registry that errors refer to (DSP8011).
const registry = "Base.1.18."

// fault returns an error answer with the extended information that Redfish
// wants.
func fault(status int, id, message, resolution string) reply {
	return reply{status: status, body: object{"error": object{
		"code":    registry + "GeneralError",
		"message": "See @Message.ExtendedInfo for more information.",
		"@Message.ExtendedInfo": []object{{
			"@odata.type":     "#Message.v1_1_2.Message",
			"MessageId":       registry + id,
			"Message":         message,
			"MessageSeverity": severity(status),
			"Resolution":      resolution,
		}},
	}}}
}

func severity(status int) string {
	if status >= http.StatusInternalServerError {
		return "Critical"
	}
	return "Warning"
}

func (r reply) with(name, value string) reply {
	header := map[string]string{name: value}
	maps.Copy(header, r.header)
	r.header = header
	return r
}

func missing(path string) reply {
	return fault(http.StatusNotFound, "ResourceMissingAtURI",
		fmt.Sprintf("The resource at the URI %s was not found.", path), "Place a valid resource at the URI or correct the URI.")
}

func internal(what string) reply {
	return fault(http.StatusInternalServerError, "InternalError", what, "Try again; if the problem lasts, reset the service.")
}

func badJSON() reply {
	return fault(http.StatusBadRequest, "MalformedJSON", "The request body is not valid JSON.", "Correct the request body.")
}

// refused returns the answer to a request whose authentication failed.
func refused(status int) reply {
	switch status {
	case http.StatusUnauthorized:
		return fault(status, "ResourceAtUriUnauthorized", "The credentials are missing or not accepted.",
			"Send the user name and password of an account of this service.").
			with("WWW-Authenticate", `Basic realm="Redfish"`)
	case http.StatusForbidden:
		return fault(status, "InsufficientPrivilege", "The account has too few privileges for this operation.",
			"Use an account that may operate the system.")
	default:
		return fault(status, "InternalError", "The service failed.", "Try again later.")
	}
}

// refusedReset returns the answer to a reset that was not accepted.
func refusedReset(t ResetType, err error) reply {
	switch {
	case errors.Is(err, ErrUnknownReset):
		return fault(http.StatusBadRequest, "ActionParameterValueNotInList",
			fmt.Sprintf("The value %q of the parameter ResetType is not one of those supported.", t),
			"Choose one of the allowable values.")
	case errors.Is(err, ErrBusy):
		return fault(http.StatusConflict, "ResourceInUse", err.Error(), "Wait for the operation to end.").with("Retry-After", "1")
	case errors.Is(err, ErrAlreadyOff), errors.Is(err, ErrAlreadyOn):
		return fault(http.StatusConflict, "NoOperation", err.Error(), "Read PowerState first.")
	default:
		return internal("The state of the system's power is not known.")
	}
}

// quiet drops the messages of net/http about clients that go away.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

{{/* Short name of the chart's objects. */}}
{{- define "serval-live.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of the release's objects: the release's name, with the chart's unless it holds it already. */}}
{{- define "serval-live.fullname" -}}
{{- $name := include "serval-live.name" . -}}
{{- $joined := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $joined .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "serval-live.selectorLabels" -}}
app.kubernetes.io/name: {{ include "serval-live.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "serval-live.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "serval-live.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: serval-live
{{- end -}}

{{/* Reference of an image. Takes (dict "image" IMAGE "root" $). */}}
{{- define "serval-live.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ default .root.Chart.AppVersion .image.tag }}
{{- end -}}
{{- end -}}

{{- define "serval-live.serviceAccount" -}}
{{- default (include "serval-live.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{/* Of predictors and Jobs. Constant: a second release that watches the same namespace is refused by it. */}}
{{- define "serval-live.workloadServiceAccount" -}}
serval-live-workload
{{- end -}}

{{/* Watched namespaces as a JSON list. */}}
{{- define "serval-live.watchNamespaces" -}}
{{- default (list .Release.Namespace) .Values.watchNamespaces | toJson -}}
{{- end -}}

{{/* Names of Secrets as one word with commas. */}}
{{- define "serval-live.pullSecretNames" -}}
{{- $names := list -}}
{{- range .Values.imagePullSecrets }}{{ $names = append $names .name }}{{ end -}}
{{- join "," $names -}}
{{- end -}}

{{/* The Lease, in the first watched namespace. Constant, so that two releases that watch one namespace take turns. */}}
{{- define "serval-live.lease" -}}
serval-live-operator
{{- end -}}

"""Functions of PostgreSQL that a statement of a twin may call: functions without side effects. Pure.

The list has accepted functions, because a captured file is not trusted. A list of harmful ones would never be complete.
"""

from __future__ import annotations

AGGREGATES = """
array_agg avg bit_and bit_or bool_and bool_or count every json_agg json_object_agg jsonb_agg jsonb_object_agg max min
mode percentile_cont percentile_disc string_agg stddev stddev_pop stddev_samp sum var_pop var_samp variance corr
covar_pop covar_samp regr_slope regr_intercept any_value
"""
WINDOWS = "row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value"
SCALARS = """
abs ceil ceiling floor round trunc mod power sqrt exp ln log sign greatest least random width_bucket
coalesce nullif
length char_length character_length octet_length lower upper initcap substr substring left right trim btrim ltrim rtrim
lpad rpad replace concat concat_ws format position strpos split_part starts_with translate reverse repeat md5 ascii chr
regexp_replace regexp_matches regexp_match regexp_split_to_array regexp_split_to_table similarity
now current_timestamp current_date current_time localtimestamp localtime clock_timestamp statement_timestamp
transaction_timestamp date_trunc date_part extract age to_char to_date to_timestamp to_number make_date make_timestamp
make_interval date_bin justify_days justify_hours justify_interval
array_length array_append array_prepend array_cat array_remove array_position array_to_string string_to_array
cardinality unnest array_upper array_lower generate_series
generate_subscripts
row_to_json to_json to_jsonb json_build_object jsonb_build_object json_build_array jsonb_build_array json_array_elements
jsonb_array_elements json_array_elements_text jsonb_array_elements_text json_array_length jsonb_array_length
json_extract_path json_extract_path_text jsonb_extract_path jsonb_extract_path_text jsonb_set jsonb_strip_nulls
json_typeof jsonb_typeof json_each jsonb_each json_each_text jsonb_each_text json_object_keys jsonb_object_keys
json_extract jsonb_exists
gen_random_uuid hashtext encode decode int4range int8range numrange tsrange tstzrange daterange
exists any all some cast case if not and or in row array interval
"""
ACCEPTED = frozenset(f"{AGGREGATES} {WINDOWS} {SCALARS}".split())
# coalesce(sum(...), $1): the parameter is a constant of the application, such as 0.
SUMS = frozenset({"sum", "avg", "count", "min", "max"})
